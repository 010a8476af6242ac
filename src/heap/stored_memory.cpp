// SPDX-License-Identifier: GPL-3.0-or-later
#include "stored_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <future>
#include <thread>

#include <sys/mman.h>

#include "memleax/base/all_signals_blocked.hpp"
#include "memleax/proc/process_memory.hpp"
#include "shared_parts.hpp"

namespace memleax {

namespace {

PresentPages::Kind kind_of(const Mapping& mapping) {
    return mapping.shared ? PresentPages::Kind::any : PresentPages::Kind::own;
}

/// There may be other ones when the process stands still.
std::uint64_t untouched_shared_bytes(Tid pid) {
    const auto mappings = read_maps(pid);
    return mappings ? SharedParts(pid, *mappings, PresentPages(pid)).bytes() : 0;
}

} // namespace

bool is_searched(const Mapping& mapping) {
    return mapping.readable && mapping.path != "[vvar]" && mapping.path != "[vsyscall]";
}

std::optional<StoredMemory> StoredMemory::reserve(Tid pid, std::uint64_t room) {
    const std::uint64_t has = try_read_resident_bytes(pid).value_or(UINT64_MAX);
    if (has > room) {
        return std::nullopt;
    }
    // It may have more by then, or have some swapped out, or in shared memory that it did not
    // touch.
    const std::uint64_t size = std::min(room, 2 * has + (16U << 20) + SharedParts::kMostBytes);
    void* begin = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) {
        return std::nullopt;
    }
    madvise(begin, size, MADV_HUGEPAGE);
    madvise(begin, size, MADV_DONTDUMP);
    std::memset(begin, 0, std::min(size, has + untouched_shared_bytes(pid)));
    return StoredMemory({static_cast<std::byte*>(begin), Unmapping{size}});
}

bool StoredMemory::copy(MemoryReader& memory, std::span<const Mapping> mappings,
                        const PresentPages& pages) {
    std::uint64_t bytes = 0;
    for (const Mapping& mapping : mappings) {
        for (const AddrRange& part : pages.in(mapping.range, kind_of(mapping))) {
            bytes += part.size();
        }
    }
    if (bytes > copy_.get_deleter().size - used_) {
        return false;
    }
    std::vector<Chunk> chunks;
    for (const Mapping& mapping : mappings) {
        const bool is_zero_elsewhere = !mapping.shared && mapping.inode == 0;
        std::uint64_t at = mapping.range.begin;
        for (const AddrRange& part : pages.in(mapping.range, kind_of(mapping))) {
            if (is_zero_elsewhere) {
                add_zeros(at, part.begin);
            }
            add(part, &chunks);
            at = part.end;
        }
        if (is_zero_elsewhere) {
            add_zeros(at, mapping.range.end);
        }
    }
    read(memory, chunks, bytes);
    for (const Chunk& chunk : chunks) {
        if (chunk.got < chunk.out.size()) { // a device's memory, or a file that has become shorter
            ++short_reads_;
            pieces_[chunk.piece].range.end = chunk.from + chunk.got;
        }
    }
    std::erase_if(pieces_, [](const Piece& piece) { return piece.range.size() == 0; });
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.range.begin < b.range.begin; });
    return true;
}

void Unmapping::operator()(std::byte* begin) const {
    munmap(begin, size);
}

void StoredMemory::add(AddrRange part, std::vector<Chunk>* chunks) {
    constexpr std::uint64_t kMostAtOnce = 8U << 20;
    for (std::uint64_t at = part.begin; at < part.end;) {
        const std::uint64_t size = std::min(part.end - at, kMostAtOnce);
        pieces_.push_back({{at, at + size}, copy_.get() + used_});
        chunks->push_back({at, {copy_.get() + used_, size}, pieces_.size() - 1});
        used_ += size;
        at += size;
    }
}

// By several threads: while the process stands still, its CPUs are free.
void StoredMemory::read(MemoryReader& memory, std::span<Chunk> chunks, std::uint64_t bytes) {
    constexpr std::uint64_t kWorthAThread = 32U << 20; // takes some ten milliseconds
    constexpr std::uint64_t kMostThreads = 16;
    std::atomic<std::size_t> next = 0;
    const auto read_some = [&memory, chunks, &next] {
        for (std::size_t i = next++; i < chunks.size(); i = next++) {
            chunks[i].got = memory.try_read(RemoteAddr(chunks[i].from), chunks[i].out);
        }
    };
    const std::uint64_t cpus = std::max(1U, std::thread::hardware_concurrency());
    const std::uint64_t threads = std::min({cpus, kMostThreads, bytes / kWorthAThread + 1});
    std::vector<std::future<void>> others;
    {
        // Where no thread can be made it is deferred, until nothing is left to be read.
        const AllSignalsBlocked blocked;
        while (others.size() + 1 < threads) {
            others.push_back(std::async(std::launch::async | std::launch::deferred, read_some));
        }
    }
    read_some();
    for (std::future<void>& other : others) {
        other.get();
    }
}

void StoredMemory::add_zeros(std::uint64_t begin, std::uint64_t end) {
    if (begin < end) {
        pieces_.push_back({{begin, end}, nullptr});
    }
}

std::size_t StoredMemory::try_read(RemoteAddr from, std::span<std::byte> out) {
    std::uint64_t at = from.value();
    std::size_t got = 0;
    auto piece = std::upper_bound(
        pieces_.begin(), pieces_.end(), at,
        [](std::uint64_t address, const Piece& each) { return address < each.range.end; });
    for (; got < out.size() && piece != pieces_.end() && piece->range.begin <= at; ++piece) {
        const std::size_t size = std::min<std::uint64_t>(piece->range.end - at, out.size() - got);
        if (piece->bytes != nullptr) {
            std::memcpy(&out[got], piece->bytes + (at - piece->range.begin), size);
        } else {
            std::memset(&out[got], 0, size);
        }
        got += size;
        at += size;
    }
    return got;
}

} // namespace memleax
