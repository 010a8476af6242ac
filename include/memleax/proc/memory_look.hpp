// SPDX-License-Identifier: GPL-3.0-or-later
/// Whose memory is short at one moment: the process's, its control group's, or the machine's. Files
/// of proc(5), and of the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst
/// and accounting/psi.rst. Amounts are bytes; counters are since the boot, or since the group was
/// made. What could not be read is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "memleax/base/types.hpp"

namespace memleax {

/// How much of the time tasks have waited for memory: percent of the last so many seconds.
struct StalledTime {
    double avg10 = 0;
    double avg60 = 0;
    double avg300 = 0;
    std::uint64_t total_us = 0;
};

/// PSI: `some` task waited, or all of them (`full`), which the machine's has since Linux 5.13.
struct MemoryPressure {
    std::optional<StalledTime> some;
    std::optional<StalledTime> full;
};
/// From the text of a memory.pressure; nothing if it is none.
std::optional<MemoryPressure> parse_memory_pressure(std::string_view text);

/// A control group (cgroups(7)), and that of its ancestors whose limit is the next to be reached:
/// a limit holds for all groups below it.
struct GroupMemory {
    std::string path; ///< of the group with the next limit, or the process's own if there is none
    std::string
        folder; ///< ... where we see it; "" if the process is in no group that counts memory
    bool version_2 = false;
    std::optional<std::uint64_t> current;       ///< with the page cache
    std::optional<std::uint64_t> limit;         ///< absent also if there is none
    std::optional<std::uint64_t> high;          ///< version 2: beyond it the group is slowed down
    std::optional<std::uint64_t> inactive_file; ///< cache that the kernel takes back first
    // How often. Version 2 counts groups below it as well.
    std::optional<std::uint64_t> at_limit; ///< memory.events: max; version 1: memory.failcnt
    std::optional<std::uint64_t> above_high;
    std::optional<std::uint64_t> out_of_memory; ///< an allocation was about to fail
    std::optional<std::uint64_t> oom_kills;     ///< processes
    /// Of the process's own group in version 2's hierarchy.
    std::optional<MemoryPressure> pressure;

    /// What cannot be had back by dropping cache that nobody uses: what a kubelet calls the working
    /// set.
    [[nodiscard]] std::optional<std::uint64_t> used() const;
};

struct MachineMemory {
    std::optional<std::uint64_t> total;
    std::optional<std::uint64_t> available;    ///< without swapping
    std::optional<std::uint64_t> commit_limit; ///< of promises, if vm.overcommit_memory is 2
    std::optional<std::uint64_t> committed;    ///< promised
    std::optional<std::uint64_t> swap_total;
    std::optional<std::uint64_t> swap_free;
    std::optional<std::uint64_t> slab; ///< of the kernel
    std::optional<std::uint64_t> slab_unreclaimable;
    std::optional<std::uint64_t> swapped_in; ///< pages, as what follows
    std::optional<std::uint64_t> swapped_out;
    std::optional<std::uint64_t> scanned; ///< by the kernel, in search of some to take
    std::optional<std::uint64_t> stolen;  ///< of those, taken
    std::optional<std::uint64_t>
        direct_reclaims; ///< times that an allocation had to do that itself
    std::optional<MemoryPressure> pressure;
};
/// From the texts of /proc/meminfo, /proc/vmstat and /proc/pressure/memory.
MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view vmstat,
                                   std::string_view pressure);
MachineMemory read_machine_memory();

/// What costs the same for a process of any size (process_memory.hpp has the rest).
struct ProcessUse {
    std::optional<std::uint64_t> rss;
    std::optional<std::uint64_t> rss_anon;
    std::optional<std::uint64_t> rss_file;
    std::optional<std::uint64_t> rss_shmem;
    std::optional<std::uint64_t> swap;
    std::optional<std::uint64_t> minor_faults;
    std::optional<std::uint64_t> major_faults; ///< that had to wait for a disk
    std::optional<std::uint64_t> oom_score;    ///< 0 to 2000: the highest is killed first
    std::optional<std::uint64_t> threads;
    std::optional<std::uint64_t> descriptors;
};
/// From the texts of /proc/PID/status and /proc/PID/stat.
ProcessUse parse_process_use(std::string_view status, std::string_view stat);

/// The group of the process; without a folder if there is none.
GroupMemory read_group_memory(Tid pid);
/// The same group now, also if the process has left it by ending.
GroupMemory look_again(const GroupMemory& before);

struct MemoryLook {
    ProcessUse process;
    GroupMemory group;
    MachineMemory machine;
};
/// Reads some ten small files.
MemoryLook look_at_memory(Tid pid);

/// The first one while a process was watched, and the last.
struct MemoryLooks {
    MemoryLook first;
    MemoryLook last;
};

/// The process that the kernel would kill first if memory went out now: of this group and those
/// below it if it has a limit, else of the machine. The one with the highest oom_score, as
/// oom_badness() in the kernel's mm/oom_kill.c; nothing if we cannot see all of them, or none may
/// be killed.
std::optional<Tid> first_to_be_killed(const GroupMemory& group);

} // namespace memleax
