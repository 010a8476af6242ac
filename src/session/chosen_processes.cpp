// SPDX-License-Identifier: GPL-3.0-or-later
#include "chosen_processes.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/pid_namespace.hpp"
#include "memleax/proc/process_list.hpp"

namespace memleax {

namespace {

/// The kernel keeps 15 characters of a name (TASK_COMM_LEN, proc(5)).
constexpr std::size_t kNameLength = 15;

Result<std::vector<Tid>> processes_called(const std::string& pattern) {
    auto name = ProcessName::parse(pattern);
    if (!name) {
        return std::move(name).error();
    }
    std::vector<Tid> found = name->find();
    if (found.empty()) {
        Error error(fmt::format("no process has a name that matches '{}' (--name)", pattern));
        return pattern.size() > kNameLength
                   ? std::move(error).with_advice("names have 15 characters at most")
                   : std::move(error);
    }
    if (found.size() > 1) {
        std::vector<int> pids;
        pids.reserve(found.size());
        for (const Tid pid : found) {
            pids.push_back(pid.value());
        }
        log_info("'{}' matches {} processes: {}", pattern, found.size(), fmt::join(pids, ", "));
    }
    return found;
}

} // namespace

Result<std::vector<Tid>> chosen_processes(const SessionOptions& options) {
    if (auto proc = check_proc_is_ours(); !proc) {
        return std::move(proc).error();
    }
    if (options.ns_pid) {
        auto pid = find_in_pid_namespace(Tid(options.pids.at(0)), *options.ns_pid);
        if (!pid) {
            return std::move(pid).error();
        }
        return std::vector<Tid>{*pid};
    }
    std::vector<Tid> chosen;
    const auto add = [&chosen](Tid pid) {
        if (std::find(chosen.begin(), chosen.end(), pid) == chosen.end()) {
            chosen.push_back(pid);
        }
    };
    for (const int pid : options.pids) {
        add(Tid(pid));
    }
    for (const std::string& name : options.names) {
        const auto found = processes_called(name);
        if (!found) {
            return found.error();
        }
        std::for_each(found->begin(), found->end(), add);
    }
    return chosen;
}

} // namespace memleax
