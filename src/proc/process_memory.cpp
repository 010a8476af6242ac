// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/process_memory.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "proc_file.hpp"

namespace memleax {

namespace {

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> result;
    for (std::string word; stream >> word;) {
        result.push_back(word);
    }
    return result;
}

std::string proc_path(Tid pid, const char* file) {
    return fmt::format("/proc/{}/{}", pid.value(), file);
}

/// Lines are "Rss:    1234 kB"; the first is the range that was rolled up.
void read_smaps_rollup(Tid pid, ProcessMemory* memory) {
    const auto text = try_read_proc_file(proc_path(pid, "smaps_rollup"));
    if (!text) {
        return;
    }
    constexpr std::uint64_t kKib = 1024;
    const auto add = [](std::optional<std::uint64_t>& sum, std::uint64_t value) {
        sum = sum.value_or(0) + value;
    };
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const auto parts = words(line);
        const auto kib = parts.size() == 3 ? number(parts[1]) : std::nullopt;
        if (!kib) {
            continue;
        }
        const std::string& name = parts[0];
        const std::uint64_t bytes = *kib * kKib;
        if (name == "Rss:") {
            memory->rss = bytes;
        } else if (name == "Pss:") {
            memory->pss = bytes;
        } else if (name == "Private_Clean:" || name == "Private_Dirty:") {
            add(memory->private_bytes, bytes);
        } else if (name == "Shared_Clean:" || name == "Shared_Dirty:") {
            add(memory->shared, bytes);
        } else if (name == "Swap:") {
            memory->swap = bytes;
        }
    }
}

/// Fields 10 and 12 of /proc/PID/stat, counted behind the name in parentheses (field 2).
void read_faults(Tid pid, ProcessMemory* memory) {
    const auto text = try_read_proc_file(proc_path(pid, "stat"));
    const auto close = text ? text->rfind(')') : std::string::npos;
    if (close == std::string::npos) {
        return;
    }
    const auto fields = words(text->substr(close + 1));
    constexpr std::size_t kMinor = 7;
    constexpr std::size_t kMajor = 9;
    if (fields.size() > kMajor) {
        memory->minor_faults = number(fields[kMinor]);
        memory->major_faults = number(fields[kMajor]);
    }
}

/// The unified hierarchy's path: "0::/system.slice/foo.service" (cgroups(7)).
std::optional<std::string> cgroup_path(Tid pid) {
    const auto text = try_read_proc_file(proc_path(pid, "cgroup"));
    if (!text) {
        return std::nullopt;
    }
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("0::")) {
            return line.substr(3);
        }
    }
    return std::nullopt;
}

/// A limit holds for everything below it, so the tightest one on the way to the root counts.
void read_cgroup(Tid pid, ProcessMemory* memory) {
    auto path = cgroup_path(pid);
    while (path && path->size() > 1) {
        const std::string folder = "/sys/fs/cgroup" + *path + "/";
        const auto limit = try_read_proc_file(folder + "memory.max");
        const auto bytes = limit ? number(*limit) : std::nullopt; // "max": none
        if (bytes && (!memory->cgroup_limit || *bytes < *memory->cgroup_limit)) {
            memory->cgroup_limit = bytes;
            const auto usage = try_read_proc_file(folder + "memory.current");
            memory->cgroup_usage = usage ? number(*usage) : std::nullopt;
        }
        path->resize(path->rfind('/'));
    }
}

/// In these control groups: v1 has a hierarchy for memory alone.
std::uint64_t room_in_cgroups(const std::string& hierarchy, std::string path, const char* limit,
                              const char* usage) {
    std::uint64_t least = UINT64_MAX;
    for (;;) {
        const std::string folder = hierarchy + path + "/";
        const auto most = try_read_proc_file(folder + limit);
        const auto used = try_read_proc_file(folder + usage);
        const auto most_bytes = most ? number(*most) : std::nullopt; // "max": none
        const auto used_bytes = used ? number(*used) : std::nullopt;
        if (most_bytes && used_bytes) {
            least = std::min(least, *most_bytes - std::min(*most_bytes, *used_bytes));
        }
        if (path.empty()) { // in a container, this one may have a limit as well
            return least;
        }
        path.resize(path.rfind('/'));
    }
}

} // namespace

std::uint64_t available_memory() {
    const auto text = try_read_proc_file("/proc/meminfo");
    std::istringstream lines(text.value_or(""));
    std::uint64_t available = 0;
    for (std::string line; std::getline(lines, line);) {
        constexpr std::string_view kName = "MemAvailable:";
        if (line.starts_with(kName)) {
            const auto fields = words(line);
            available = (fields.size() > 1 ? number(fields[1]).value_or(0) : 0) * 1024;
        }
    }
    const std::string path = cgroup_path(Tid(getpid())).value_or("/");
    return std::min({available,
                     room_in_cgroups("/sys/fs/cgroup", path.size() > 1 ? path : "", "memory.max",
                                     "memory.current"),
                     room_in_cgroups("/sys/fs/cgroup/memory", "", "memory.limit_in_bytes",
                                     "memory.usage_in_bytes")});
}

std::optional<std::uint64_t> try_read_resident_bytes(Tid pid) {
    const auto text = try_read_proc_file(proc_path(pid, "statm"));
    const auto fields = text ? words(*text) : std::vector<std::string>{};
    const auto pages = fields.size() > 1 ? number(fields[1]) : std::nullopt;
    if (!pages) {
        return std::nullopt;
    }
    return *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

ProcessMemory read_process_memory(Tid pid) {
    ProcessMemory memory;
    read_smaps_rollup(pid, &memory);
    if (!memory.rss) { // no right to look at the pages themselves
        memory.rss = try_read_resident_bytes(pid);
    }
    read_faults(pid, &memory);
    if (const auto score = try_read_proc_file(proc_path(pid, "oom_score"))) {
        if (const auto value = number(*score)) {
            memory.oom_score = static_cast<std::int64_t>(*value);
        }
    }
    read_cgroup(pid, &memory);
    return memory;
}

} // namespace memleax
