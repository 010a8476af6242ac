// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "memleax/base/types.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// Asked when there is something that looks like a reference.
using UnwinderSource = std::function<Unwinder&()>;

struct PageReference {
    Tid tid;
    AddrRange page;
};

/// A signal frame on some thread's stack, whose handler will return to a pc in one of these pages.
/// Threads are stopped or asleep. Frames of our own handler do not count: who was in it is out.
/// The unwinder tells frames that are in use from what older ones have left on the stack. Where a
/// stack cannot be followed to its end, each counts.
std::optional<PageReference> find_reference(Target& target, std::span<const AddrRange> pages,
                                            const UnwinderSource& unwinder);

/// The same question about one thread.
bool refers_to(Target& target, Tid tid, std::span<const AddrRange> pages,
               const UnwinderSource& unwinder);

} // namespace memleax
