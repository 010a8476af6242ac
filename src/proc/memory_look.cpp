// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/memory_look.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/meminfo.hpp"
#include "memleax/proc/process_list.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

namespace {

/// "some avg10=0.12 avg60=0.05 avg300=0.01 total=123456"
std::optional<StalledTime> parse_stalled(std::string_view text, std::string_view kind) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        StalledTime time;
        char name[8] = "";
        unsigned long long total = 0;
        const int got = std::sscanf(line.c_str(), "%7s avg10=%lf avg60=%lf avg300=%lf total=%llu",
                                    name, &time.avg10, &time.avg60, &time.avg300, &total);
        if (got == 5 && name == kind) {
            time.total_us = total;
            return time;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> sum(std::string_view vmstat,
                                 std::initializer_list<std::string_view> names) {
    std::optional<std::uint64_t> all;
    for (const std::string_view name : names) {
        if (const auto value = named_number(vmstat, name)) {
            all = all.value_or(0) + *value;
        }
    }
    return all;
}

/// Since Linux 6.2 the size of the folder is the number of its entries.
std::optional<std::uint64_t> count_descriptors(Tid pid) {
    const std::string folder = fmt::format("/proc/{}/fd", pid.value());
    struct stat status {};
    if (stat(folder.c_str(), &status) == 0 && status.st_size > 0) {
        return static_cast<std::uint64_t>(status.st_size);
    }
    std::error_code error;
    std::uint64_t count = 0;
    std::filesystem::directory_iterator entry(folder, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
        ++count;
        entry.increment(error);
    }
    return error ? std::nullopt : std::optional(count);
}

/// Of a process, which may have ended: its file may not be there.
std::string text_of(Tid pid, const char* file) {
    return try_read_proc_file(fmt::format("/proc/{}/{}", pid.value(), file)).value_or("");
}

void add_members(const std::string& folder, std::vector<Tid>* members) {
    std::istringstream lines(try_read_proc_file(folder + "/cgroup.procs").value_or(""));
    for (int pid = 0; lines >> pid;) {
        members->emplace_back(pid); // 0: of another PID namespace, which we cannot see
    }
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
        if (std::error_code ignored; entry->is_directory(ignored)) {
            add_members(entry->path(), members);
        }
        entry.increment(error);
    }
}

/// The kernel's first PID namespace has this number (PROC_PID_INIT_INO in include/linux/proc_ns.h).
bool sees_all_processes() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/ns/pid", error) == "pid:[4026531836]";
}

} // namespace

std::optional<MemoryPressure> parse_memory_pressure(std::string_view text) {
    const MemoryPressure pressure{parse_stalled(text, "some"), parse_stalled(text, "full")};
    return pressure.some || pressure.full ? std::optional(pressure) : std::nullopt;
}

std::optional<std::uint64_t> GroupMemory::used() const {
    return current ? std::optional(*current - std::min(*current, inactive_file.value_or(0)))
                   : std::nullopt;
}

MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view vmstat,
                                   std::string_view pressure) {
    MachineMemory memory;
    memory.total = named_kib(meminfo, "MemTotal:");
    memory.available = named_kib(meminfo, "MemAvailable:");
    memory.commit_limit = named_kib(meminfo, "CommitLimit:");
    memory.committed = named_kib(meminfo, "Committed_AS:");
    memory.swap_total = named_kib(meminfo, "SwapTotal:");
    memory.swap_free = named_kib(meminfo, "SwapFree:");
    memory.slab = named_kib(meminfo, "Slab:");
    memory.slab_unreclaimable = named_kib(meminfo, "SUnreclaim:");
    memory.swapped_in = named_number(vmstat, "pswpin");
    memory.swapped_out = named_number(vmstat, "pswpout");
    // By whom. The same pages are counted by kind, too (pgscan_anon); before 4.8, by zone.
    memory.scanned =
        sum(vmstat, {"pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive"});
    memory.stolen = sum(
        vmstat, {"pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"});
    memory.direct_reclaims = sum_of_named(vmstat, "allocstall"); // by zone
    memory.pressure = parse_memory_pressure(pressure);
    return memory;
}

MachineMemory read_machine_memory() {
    const auto text = [](const char* path) { return try_read_proc_file(path).value_or(""); };
    return parse_machine_memory(text("/proc/meminfo"), text("/proc/vmstat"),
                                text("/proc/pressure/memory"));
}

MachineMemory read_meminfo() {
    return parse_machine_memory(try_read_proc_file("/proc/meminfo").value_or(""), "", "");
}

ProcessUse parse_process_use(std::string_view status, std::string_view stat) {
    ProcessUse use;
    use.rss = named_kib(status, "VmRSS:");
    use.rss_anon = named_kib(status, "RssAnon:");
    use.rss_file = named_kib(status, "RssFile:");
    use.rss_shmem = named_kib(status, "RssShmem:");
    use.swap = named_kib(status, "VmSwap:");
    use.threads = named_number(status, "Threads:");
    constexpr std::size_t kMinorFaults = 10 - 3; // field 10
    constexpr std::size_t kMajorFaults = 12 - 3;
    const auto fields = stat_fields(stat);
    if (fields.size() > kMajorFaults) {
        use.minor_faults = leading_number(fields[kMinorFaults]);
        use.major_faults = leading_number(fields[kMajorFaults]);
    }
    return use;
}

MemoryLook look_at_memory(Tid pid) {
    MemoryLook look;
    const Tid thread = living_thread(pid); // one that has ended has neither memory nor descriptors
    look.process = parse_process_use(text_of(thread, "status"), text_of(thread, "stat"));
    look.process.oom_score = leading_number(text_of(pid, "oom_score"));
    look.process.descriptors = count_descriptors(thread);
    look.group = read_group_memory(thread);
    look.machine = read_machine_memory();
    return look;
}

std::optional<Tid> first_to_be_killed(const GroupMemory& group) {
    std::vector<Tid> candidates;
    if (group.limit) {
        add_members(group.folder, &candidates);
    } else if (sees_all_processes()) {
        candidates = list_processes();
    }
    std::optional<Tid> first;
    std::uint64_t highest = 0;
    for (const Tid pid : candidates) {
        if (pid.value() == 0) {
            return std::nullopt;
        }
        const std::uint64_t score = leading_number(text_of(pid, "oom_score")).value_or(0);
        if (score > highest) {
            highest = score;
            first = pid;
        }
    }
    return first;
}

} // namespace memleax
