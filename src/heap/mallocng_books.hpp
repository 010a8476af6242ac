// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>

#include "heap_books.hpp"
#include "mallocng_places.hpp"

namespace memleax {

std::unique_ptr<HeapAllocator> make_heap_allocator(const Mallocng& libc);

} // namespace memleax
