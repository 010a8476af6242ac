// SPDX-License-Identifier: GPL-3.0-or-later
/// Vectors of millions of elements. A large one has a mapping of its own, in huge pages where the
/// kernel gives them on request (madvise(2), MADV_HUGEPAGE): to be read here and there it needs few
/// entries of the TLB, and to be filled few page faults. It returns its memory to the kernel at
/// once.
#pragma once

#include <cstddef>
#include <vector>

namespace memleax {

/// Throws std::bad_alloc if there is none. So many bytes are to be given back.
[[nodiscard]] void* allocate_large(std::size_t bytes);
void free_large(void* begin, std::size_t bytes) noexcept;

template <class T> struct LargeAllocator {
    using value_type = T;

    LargeAllocator() = default;
    template <class U> LargeAllocator(const LargeAllocator<U>& /*other*/) {}

    // A vector asks for no more than its max_size(), so that the product fits.
    [[nodiscard]] T* allocate(std::size_t count) {
        return static_cast<T*>(allocate_large(count * sizeof(T)));
    }
    void deallocate(T* begin, std::size_t count) noexcept { free_large(begin, count * sizeof(T)); }
    friend bool operator==(const LargeAllocator& /*a*/, const LargeAllocator& /*b*/) {
        return true;
    }
};

template <class T> using LargeVector = std::vector<T, LargeAllocator<T>>;

} // namespace memleax
