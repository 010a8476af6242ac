// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>

#include "glibc_places.hpp"
#include "heap_books.hpp"

namespace memleax {

std::unique_ptr<HeapAllocator> make_heap_allocator(const Glibc& libc);

} // namespace memleax
