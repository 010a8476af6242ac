// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/large_vector.hpp"

#include <cstdint>
#include <limits>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace memleax {

namespace {

constexpr std::size_t kHugePage = 2U << 20;
constexpr std::size_t kLarge = 2 * kHugePage; ///< below this the heap is as good

/// With base pages of 64 KiB (arm64) a huge one has 512 MB, most of which would be wasted.
bool has_small_pages() {
    static const bool result = sysconf(_SC_PAGESIZE) == 4096;
    return result;
}

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kHugePage - 1) & ~(kHugePage - 1);
}

} // namespace

void* allocate_large(std::size_t bytes) {
    if (bytes < kLarge) {
        return ::operator new(bytes);
    }
    if (bytes > std::numeric_limits<std::size_t>::max() / 2) {
        throw std::bad_alloc();
    }
    const std::size_t size = whole_pages(bytes);
    void* const mapped =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        throw std::bad_alloc();
    }
    // A huge page begins at a multiple of its size; what is before and behind goes back.
    auto* const from = static_cast<std::byte*>(mapped);
    const std::size_t before =
        (kHugePage - reinterpret_cast<std::uintptr_t>(from) % kHugePage) % kHugePage;
    if (before > 0) {
        munmap(from, before);
    }
    if (before < kHugePage) {
        munmap(from + before + size, kHugePage - before);
    }
    if (has_small_pages()) {
        madvise(from + before, size, MADV_HUGEPAGE);
    }
    return from + before;
}

void free_large(void* begin, std::size_t bytes) noexcept {
    if (bytes < kLarge) {
        ::operator delete(begin);
    } else {
        munmap(begin, whole_pages(bytes));
    }
}

} // namespace memleax
