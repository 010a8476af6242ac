// SPDX-License-Identifier: GPL-3.0-or-later
/// How much more memory a process may take before somebody is killed or slowed down for it: the
/// limits of its control group, of those above that, and the machine's. The kernel's
/// Documentation/mm/overcommit-accounting.rst,
/// Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and proc(5) (/proc/meminfo).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

struct ControlGroup;
struct MachineMemory;

class MemoryRoom {
  public:
    /// Where this process is now. Groups above the uppermost one that we can see are not asked.
    explicit MemoryRoom(Tid pid);
    /// Of these groups, and of no machine.
    explicit MemoryRoom(const std::vector<ControlGroup>& groups);

    /// Is there room for so many bytes at this moment? The Error says where there is none, and for
    /// `what`. Reads three small files for each group.
    [[nodiscard]] Result<void> check(std::uint64_t bytes, const char* what) const;
    /// The same for what is swapped out: it has been promised already (vm.overcommit_memory), and
    /// limits of memory and swap together have it already.
    [[nodiscard]] Result<void> check_swapped(std::uint64_t bytes, const char* what) const;

  private:
    /// Files.
    struct Limit {
        std::string used;
        std::string limit;
        std::string stat;
        bool with_swap = false;
    };
    void add(const ControlGroup& group);
    [[nodiscard]] static bool has(const Limit& limit, std::uint64_t bytes);
    [[nodiscard]] Result<void> check(std::uint64_t bytes, const char* what, bool are_swapped) const;

    std::vector<Limit> limits_;
    bool is_machine_asked_ = false;
    bool may_overcommit_ = true;
};

/// Are so many bytes a small part of what a process may yet map (RLIMIT_AS)? Whoever limits its
/// address space has not counted on us: what it maps later must not fail because of what we have.
/// The Error says that there is too little room for `what`.
[[nodiscard]] Result<void> check_address_room(Tid pid, std::uint64_t bytes, const char* what);

/// vm.overcommit_memory, by the text of that file: does the kernel give private memory that is not
/// backed by anything?
bool may_overcommit(std::string_view overcommit_memory);

/// How much of what the kernel promises at most where it may not (proc(5), CommitLimit) is left,
/// but for a part that is to be left to others: when all is promised, calls of any process fail.
std::uint64_t left_to_promise(const MachineMemory& machine);

} // namespace memleax
