// SPDX-License-Identifier: GPL-3.0-or-later
#include "mallocng_places.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "mallocng_layout.hpp"
#include "memory_image.hpp"
#include "module_search.hpp"

namespace memleax {

namespace {

namespace ng = mallocng;

/// Those that change the books, and what they are made of, as far as it is not part of them. Of
/// these a shared library names the first six only, and has the others between them.
constexpr std::array<std::string_view, 20> kFunctions{"malloc",
                                                      "calloc",
                                                      "realloc",
                                                      "free",
                                                      "aligned_alloc",
                                                      "malloc_usable_size",
                                                      "__libc_malloc_impl",
                                                      "__libc_malloc",
                                                      "__libc_calloc",
                                                      "__libc_realloc",
                                                      "__libc_free",
                                                      "__malloc_alloc_meta",
                                                      "alloc_slot",
                                                      "alloc_group",
                                                      "try_avail",
                                                      "nontrivial_free",
                                                      "free_group",
                                                      "get_meta",
                                                      "enframe",
                                                      "__malloc_donate"};

bool is_area(MemoryReader& memory, std::uint64_t at, std::uint64_t secret) {
    namespace ar = ng::area;
    return at != 0 && at % ng::kArea == 0 &&
           memory.try_read_object<std::uint64_t>(RemoteAddr(at + ar::kCheck)) == secret &&
           memory.try_read_object<std::uint32_t>(RemoteAddr(at + ar::kSlots)) == ng::kMetasOfArea;
}

/// 0 is one, too: of no group.
bool may_be_meta(MemoryReader& memory, std::uint64_t at, std::uint64_t secret) {
    const std::uint64_t offset = at % ng::kArea;
    return at == 0 ||
           (offset >= ng::area::kMetas && (offset - ng::area::kMetas) % ng::kMetaBytes == 0 &&
            is_area(memory, at - offset, secret));
}

/// Everything that it leads to has to be as it should.
bool is_context(const MemoryImage& image, std::uint64_t offset, MemoryReader& memory) {
    namespace cx = ng::context;
    constexpr std::uint64_t kMostAreaShift = 64;
    const auto word = [&](std::uint64_t at) { return image.word(offset + at); };
    const std::uint64_t secret = word(cx::kSecret);
    const std::uint64_t last = word(cx::kLastArea);
    const std::uint64_t left = word(cx::kMetasLeft);
    const std::uint64_t brk = word(cx::kBrk);
    if (image.half(offset + cx::kInitDone) != 1 || left >= ng::kMetasOfArea ||
        word(cx::kFirstArea) % ng::kArea != 0 || last % ng::kArea != 0 || last == 0 ||
        word(cx::kNextMeta) !=
            last + ng::area::kMetas + (ng::kMetasOfArea - left) * ng::kMetaBytes ||
        word(cx::kAreaShift) >= kMostAreaShift || (brk % ng::kArea != 0 && ~brk != 0)) {
        return false;
    }
    if (!is_area(memory, word(cx::kFirstArea), secret) || !is_area(memory, last, secret) ||
        memory.try_read_object<std::uint64_t>(RemoteAddr(last + ng::area::kNext)) != 0 ||
        !may_be_meta(memory, word(cx::kFreeMetas), secret)) {
        return false;
    }
    for (std::uint64_t number = 0; number < ng::kClasses; ++number) {
        if (!may_be_meta(memory, word(cx::kActive + number * sizeof number), secret)) {
            return false;
        }
    }
    return true;
}

/// By a symbol, which a static program may have.
std::optional<std::uint64_t> find_unused_context(const Mallocng& libc, MemoryReader& memory) {
    const auto symbol =
        libc.module->image ? libc.module->image->find_variable("__malloc_context") : std::nullopt;
    if (!symbol) {
        return std::nullopt;
    }
    const std::uint64_t at = symbol->address.value() + libc.module->load_bias;
    std::array<std::byte, ng::context::kBytes> bytes{};
    const bool is_unused = memory.try_read(RemoteAddr(at), bytes) == bytes.size() &&
                           std::all_of(bytes.begin(), bytes.end(),
                                       [](std::byte byte) { return byte == std::byte(0); });
    return is_unused ? std::optional(at) : std::nullopt;
}

} // namespace

std::vector<AddrRange> find_mallocng_code(const Module& module, bool is_static) {
    std::vector<AddrRange> code =
        find_code(module, is_static ? SymbolTable::full : SymbolTable::dynamic, kFunctions);
    if (is_static || code.empty()) {
        return code;
    }
    // musl's Makefile sorts its files, so those of malloc are side by side.
    constexpr std::uint64_t kMost = 64 << 10;
    AddrRange all = code.front();
    for (const AddrRange& range : code) {
        all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
    }
    return all.size() <= kMost ? std::vector{all} : std::vector<AddrRange>();
}

bool has_mallocng(const Module& module) {
    static const std::string_view table(reinterpret_cast<const char*>(ng::kSizes.data()),
                                        sizeof ng::kSizes);
    bool found = false;
    if (module.image) {
        search_file(module, [&found](std::string_view text) {
            found = text.find(table) != std::string_view::npos;
            return found;
        });
    }
    return found;
}

Result<MallocngPlaces> find_mallocng_places(const Mallocng& libc, std::span<const Mapping> mappings,
                                            MemoryReader& memory, const PresentParts& present) {
    MallocngPlaces places{.context = 0, .code = libc.code};
    std::vector<std::uint64_t> contexts;
    const AddrRange own = libc.module->range;
    for (const Mapping& mapping : mappings) {
        // .bss ends within a page, and what is mapped behind it may be one mapping with it.
        if (!mapping.writable || !mapping.range.overlaps(own)) {
            continue;
        }
        const auto pages = parts_to_search(mapping, present);
        for_each_image(
            memory, mapping.range.common_with(own), pages, [&](const MemoryImage& image) {
                const auto found = image.find_all(ng::context::kBytes, [&](std::uint64_t at) {
                    return is_context(image, at, memory);
                });
                contexts.insert(contexts.end(), found.begin(), found.end());
            });
    }
    if (contexts.empty()) {
        if (const auto unused = find_unused_context(libc, memory)) {
            contexts.push_back(*unused);
        }
    }
    if (contexts.size() != 1) {
        return Error(fmt::format("the heap cannot be read: in {} there are {} places that look "
                                 "like the context of musl's malloc",
                                 libc.module->path, contexts.size()),
                     EAGAIN);
    }
    places.context = contexts.front();
    return places;
}

} // namespace memleax
