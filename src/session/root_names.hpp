// SPDX-License-Identifier: GPL-3.0-or-later
/// What the places are called from which the heap is held: variables, stacks, registers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memleax/analysis/holders.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/session/stack_names.hpp"

namespace memleax {

class RootNames {
  public:
    /// Both must outlive it.
    RootNames(const HeapSnapshot& snapshot, StackNames& names)
        : snapshot_(snapshot), names_(names) {}

    struct Name {
        std::string group;        ///< "g_sessions", "stack of thread 4711"
        std::string where;        ///< its source file, or its module; may be ""
        std::uint64_t offset = 0; ///< of the pointer in the group, ...
        bool has_offset = false;  ///< ... if that says anything
        bool is_last = false;     ///< see RootGroups
        [[nodiscard]] std::string text() const;
        [[nodiscard]] std::string text_with_offset() const;
    };
    [[nodiscard]] Name name(std::uint64_t root);

  private:
    [[nodiscard]] Name name_memory(RemoteAddr address);

    const HeapSnapshot& snapshot_;
    StackNames& names_;
};

} // namespace memleax
