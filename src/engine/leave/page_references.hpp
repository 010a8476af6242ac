// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// Asked when there is something that looks like a reference.
using UnwinderSource = std::function<Unwinder&()>;

/// Of a thread that is stopped or asleep. In the second case only pc and sp are known; nothing can
/// be read where the other registers lead to.
std::optional<arch::Registers> known_registers(const Target& target, Tid tid);

struct PageReference {
    Tid tid;
    AddrRange page;
};

/// A signal frame on some thread's stack, whose handler will return to a pc in one of these pages.
/// Frames of our own handler do not count: who was in it is out. The unwinder tells frames that are
/// in use from what older ones have left on the stack. Where a stack cannot be followed to its end,
/// as that of a thread that runs, each counts. So those that are known to be out of the pages for
/// good are not asked: they may have woken up.
std::optional<PageReference> find_reference(Target& target, std::span<const AddrRange> pages,
                                            const UnwinderSource& unwinder,
                                            const std::set<Tid>& are_out);

/// The same question about one thread after the other. The mappings are read once, for all that
/// are asked about soon.
class ReferenceSearch {
  public:
    /// All must outlive it.
    ReferenceSearch(Target& target, std::span<const AddrRange> pages, UnwinderSource unwinder);
    ~ReferenceSearch();
    ReferenceSearch(const ReferenceSearch&) = delete;
    ReferenceSearch& operator=(const ReferenceSearch&) = delete;

    /// The page that it refers to.
    std::optional<AddrRange> find(Tid tid);
    /// Do all frames of its stack lead past the pages? Then it refers to none, which this tells
    /// sooner where neighbours' stacks are one mapping. False if it cannot be told.
    [[nodiscard]] bool leads_past(Tid tid);

  private:
    class Stacks;
    Target& target_;
    std::span<const AddrRange> pages_;
    UnwinderSource unwinder_;
    std::unique_ptr<Stacks> stacks_;
};

/// About one.
bool refers_to(Target& target, Tid tid, std::span<const AddrRange> pages,
               const UnwinderSource& unwinder);

} // namespace memleax
