// SPDX-License-Identifier: GPL-3.0-or-later
// tcache: free blocks that each thread keeps for itself, which look as if they were in use. The
// pointer to a thread's cache is a variable of the C library in the thread's static TLS, at the
// same distance from the thread pointer in each, above or below it by the CPU. A thread that is
// about to end has set it to null, and its cache is still a block of malloc's own: so caches are
// looked for among the blocks, by size and content, and the variable is used to find out whether
// one is missing.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "glibc_layout.hpp"
#include "glibc_walk.hpp"
#include "thread_area.hpp"

namespace memleax {

namespace {

struct CacheWords {
    std::array<std::uint16_t, glibc::tcache::kBins> counts{};
    std::array<std::uint64_t, glibc::tcache::kBins> entries{};
};
static_assert(sizeof(CacheWords) == glibc::tcache::kBytes);

constexpr std::uint64_t kMostTls = 64 << 10;

/// Where a thread's static TLS may be, in the mapping that its thread pointer is in.
AddrRange tls_in(AddrRange mapping, std::uint64_t pointer) {
    return arch::kTlsIsAbovePointer
               ? AddrRange{pointer, pointer + std::min(mapping.end - pointer, kMostTls)}
               : AddrRange{pointer - std::min(pointer - mapping.begin, kMostTls), pointer};
}

} // namespace

// One that a thread stopped in the midst of a change may have counted one block too few, or have
// its first block without its mark. While it is emptied its counts stay.
std::optional<GlibcWalk::Cache> GlibcWalk::cache_at(std::size_t block) {
    Cache cache{blocks_[block].address.value(), {}};
    const auto words = memory_.try_read_object<CacheWords>(blocks_[block].address);
    if (!words || std::any_of(words->entries.begin(), words->entries.end(),
                              [](std::uint64_t e) { return e % glibc::kAlignment != 0; })) {
        return std::nullopt;
    }
    std::optional<std::uint64_t> mark;
    for (std::uint64_t bin = 0; bin < glibc::tcache::kBins; ++bin) {
        std::uint64_t length = 0;
        for (std::uint64_t at = words->entries[bin]; at != 0; ++length) {
            const auto entry = find_block(at);
            if (!entry || blocks_[*entry].size != glibc::tcache::bin_usable(bin) ||
                length > words->counts[bin]) {
                return std::nullopt;
            }
            const std::uint64_t key = word(at + sizeof at);
            if (mark && key != *mark) {
                return std::nullopt;
            }
            if (length != 0) {
                mark = key;
            }
            cache.entries.push_back(*entry);
            at = places_.layout->reveal(at, word(at));
        }
    }
    return cache;
}

bool GlibcWalk::check_cache_of_threads(const std::vector<Cache>& caches) {
    // They are in the order of their addresses, and may be many: each block that has a cache's size
    // and nothing in it looks like an empty one.
    const auto find = [&caches](std::uint64_t at) {
        const auto cache = std::partition_point(caches.begin(), caches.end(),
                                                [at](const Cache& each) { return each.at < at; });
        return cache != caches.end() && cache->at == at ? cache : caches.end();
    };
    std::vector<std::vector<std::uint64_t>> tls; // each thread's words, from the pointer on
    for (const std::uint64_t pointer : input_.thread_pointers) {
        std::vector<std::uint64_t>& words = tls.emplace_back();
        for (const Mapping& mapping : input_.mappings) {
            if (pointer % sizeof pointer == 0 && mapping.range.contains(pointer)) {
                const AddrRange all = tls_in(mapping.range, pointer);
                const AddrRange range{all.begin, all.begin + (all.size() & ~7ULL)};
                words.resize(range.size() / sizeof pointer);
                const auto bytes = std::as_writable_bytes(std::span(words));
                for (AddrRange part : input_.present(range)) { // a stack may be below it
                    part = part.common_with(range);
                    memory_.try_read(RemoteAddr(part.begin),
                                     bytes.subspan(part.begin - range.begin, part.size()));
                }
                if (!arch::kTlsIsAbovePointer) {
                    std::reverse(words.begin(), words.end());
                }
            }
        }
    }
    std::map<std::size_t, std::size_t> found; // in how many threads, by the words' places
    for (const auto& words : tls) {
        for (std::size_t i = 0; i < words.size(); ++i) {
            const auto cache = words[i] != 0 ? find(words[i]) : caches.end();
            if (cache != caches.end() && !cache->entries.empty()) {
                ++found[i];
            }
        }
    }
    // Below a thread's TLS may be its stack, where malloc has left such a pointer, too; but not at
    // one place in all of them.
    std::size_t most = 0;
    for (const auto& [place, threads] : found) {
        most = std::max(most, threads);
    }
    for (const auto& [place, threads] : found) {
        for (const auto& words : tls) {
            if (threads < most || place >= words.size() || words[place] == 0) {
                continue;
            }
            if (find(words[place]) == caches.end()) {
                return fail("a thread's cache of free blocks is not found");
            }
            take_out(*find_block(words[place])); // also an empty one
        }
    }
    return true;
}

bool GlibcWalk::take_out_caches() {
    std::vector<Cache> caches;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const bool may_be_one = blocks_[i].size == glibc::tcache::kUsable ||
                                blocks_[i].size == glibc::tcache::kUsable + glibc::kAlignment;
        if (may_be_one && !taken_out_[i]) {
            if (auto cache = cache_at(i)) {
                caches.push_back(*std::move(cache));
            }
        }
    }
    if (!check_cache_of_threads(caches)) {
        return false;
    }
    for (const Cache& cache : caches) {
        for (const std::size_t entry : cache.entries) {
            if (taken_out_[entry]) {
                return fail(fmt::format("the free block at {:#x} is in two lists",
                                        blocks_[entry].address.value()));
            }
            take_out(entry);
        }
        if (!cache.entries.empty()) {
            take_out(*find_block(cache.at));
        }
    }
    return true;
}

} // namespace memleax
