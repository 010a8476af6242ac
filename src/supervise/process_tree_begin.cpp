// SPDX-License-Identifier: GPL-3.0-or-later
// How processes come to be watched: started, attached to, or taken up again.
#include <algorithm>
#include <csignal>
#include <set>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_list.hpp"
#include "memleax/supervise/process_tree.hpp"
#include "memleax/target/other_guardians.hpp"
#include "watched_process.hpp"

namespace memleax {

namespace {

/// A number that was given anew belongs to a process that began later. (The time of its first
/// thread, which stays when that has ended.)
bool is_still(const WatchedProcess& process) {
    const auto info = try_read_process_info(process.pid());
    return info && info->start_time == process.start_time();
}

/// Reads what there is to know before a thread stands still. Again, for a while, if there is no
/// allocator: in the midst of an exec a process has no memory, or files that cannot be opened any
/// more, and just after it no libraries yet.
Result<void> look_at(WatchedProcess& process) {
    constexpr int kLooks = 50;
    for (int i = 0;; ++i) {
        auto looked = process.look();
        const bool complete = looked && (process.has_allocator() || process.is_starting());
        if (complete || i == kLooks) {
            return complete || !looked ? std::move(looked) : Result<void>(process.no_allocator());
        }
        poll(nullptr, 0, 1);
    }
}

Error another_by_now(Tid pid) {
    return Error(fmt::format("process {} is another one by now", pid.value()));
}

} // namespace

Result<void> ProcessTree::launch(Tracer& tracer, const std::vector<std::string>& command,
                                 const SpawnAttributes& inherited) {
    auto target = Target::launch(tracer, command, inherited);
    if (!target) {
        return std::move(target).error();
    }
    const Tid pid = (*target)->pid();
    WatchedProcess& process = add(pid, nullptr);
    auto looked = process.look();
    if (!looked) {
        return looked;
    }
    if (!process.has_allocator() && process.is_static()) {
        Error error = process.no_allocator();
        kill(pid.value(), SIGKILL); // ours, and it has not executed one instruction
        return error;
    }
    return process.watch(*std::move(target), false);
}

Result<void> ProcessTree::attach_one(Tracer& tracer, Tid pid, const WatchedProcess* parent,
                                     std::optional<std::uint64_t> start_time,
                                     const std::atomic<bool>& stop) {
    if (auto watchable = check_free(pid); !watchable) {
        return std::move(watchable).error();
    }
    if (!start_time) {
        const auto info = try_read_process_info(pid);
        start_time = info ? info->start_time : 0;
    }
    // Symbols are read while nothing is seized yet: a thread that is born meanwhile does not wait.
    WatchedProcess& process = add(pid, parent);
    auto begun = begin(tracer, process, *start_time, false, stop);
    if (begun) {
        return begun;
    }
    Error error = process.explain(std::move(begun).error());
    process.give_up();
    std::erase_if(processes_, [&process](const auto& each) { return each.get() == &process; });
    return error;
}

Result<void> ProcessTree::attach(Tracer& tracer, const std::vector<Tid>& pids,
                                 const std::atomic<bool>& stop) {
    std::vector<Error> problems;
    beginning_ = true;
    for (const Tid pid : pids) {
        handle_waiting_stops(tracer, stop);
        if (stop.load(std::memory_order_relaxed)) {
            break;
        }
        if (auto begun = attach_one(tracer, pid, nullptr, {}, stop); !begun) {
            problems.push_back(std::move(begun).error());
        }
    }
    if (options_.children) {
        attach_children(tracer, stop, &problems);
    }
    beginning_ = false;
    if (processes_.empty() && problems.size() == 1) {
        return std::move(problems.front());
    }
    for (const Error& problem : problems) {
        log_warning("{}", problem.message());
    }
    if (processes_.empty() && !problems.empty()) {
        return Error("none of the processes can be watched");
    }
    if (watching_) {
        host_.on_watching();
    }
    return {};
}

void ProcessTree::attach_children(Tracer& tracer, const std::atomic<bool>& stop,
                                  std::vector<Error>* problems) {
    std::set<Tid> seen;
    // What a process has made before it was seized can be seen now; what it makes from then on is
    // ours from its birth, and follow's business.
    for (bool any = true; any;) {
        any = false;
        std::vector<Tid> ancestors;
        for (const auto& process : processes_) {
            ancestors.push_back(process->pid());
        }
        const std::vector<Descendant> list = find_descendants(ancestors);
        for (const Descendant& child : list) {
            const auto info = try_read_process_info(child.pid);
            if (seen.contains(child.pid) || find(child.pid) != nullptr || !info ||
                info->tracer.value() == gettid()) {
                continue;
            }
            handle_waiting_stops(tracer, stop);
            if (stop.load(std::memory_order_relaxed)) {
                return;
            }
            if (!is_as_listed(list, child)) {
                continue; // if it is a child after all, the next list has it
            }
            seen.insert(child.pid);
            any = true;
            auto begun = attach_one(tracer, child.pid, find(child.parent), child.start_time, stop);
            if (!begun) {
                problems->push_back(std::move(begun).error());
            }
        }
    }
}

Result<void> ProcessTree::begin(Tracer& tracer, WatchedProcess& process, std::uint64_t start_time,
                                bool gap, const std::atomic<bool>& stop) {
    auto looked = look_at(process);
    if (!looked) {
        return looked;
    }
    if (process.start_time() != start_time) {
        return another_by_now(process.pid());
    }
    auto target = Target::seize(tracer, process.pid());
    if (!target) {
        return std::move(target).error();
    }
    if (auto no_dump = check_no_core_dump(process.pid()); !no_dump) {
        return no_dump;
    }
    // What is seized keeps its number, and no exec goes by unseen. Before that the number may have
    // gone to another process, or the process to another program, where our breakpoints would fall
    // anywhere.
    if (!is_still(process)) {
        return another_by_now(process.pid());
    }
    if (process.executes_another()) {
        if (auto again = process.look(); !again) {
            return again;
        }
        if (auto reopened = (*target)->reopen_memory(); !reopened) {
            return reopened;
        }
    }
    const Tracer::ServesMeanwhile others(tracer, serving(tracer, stop));
    return process.watch(*std::move(target), gap);
}

Result<void> ProcessTree::resume(Tracer& tracer, const std::atomic<bool>& stop) {
    std::optional<Error> problem;
    bool any = false;
    beginning_ = true;
    const std::size_t known = processes_.size(); // children of the first ones may come meanwhile
    std::size_t tried = 0;
    const auto resume_one = [this, &tracer, &stop](WatchedProcess& process) -> Result<void> {
        if (auto watchable = check_free(process.pid()); !watchable) {
            return std::move(watchable).error();
        }
        if (!is_still(process)) {
            return another_by_now(process.pid());
        }
        return begin(tracer, process, process.start_time(), true, stop);
    };
    for (; tried < known; ++tried) {
        handle_waiting_stops(tracer, stop);
        if (stop.load(std::memory_order_relaxed)) {
            break;
        }
        auto resumed = resume_one(*processes_[tried]);
        any = any || resumed.ok();
        if (!resumed && !problem) {
            problem = std::move(resumed).error();
        }
    }
    beginning_ = false;
    if (!any && problem) {
        return *std::move(problem);
    }
    for (std::size_t i = 0; i < tried; ++i) {
        if (processes_[i]->target() == nullptr) {
            processes_[i]->note_end(); // or it is out of our reach, which is the same to us
        }
    }
    if (problem) {
        log_warning("{}", problem->message());
    }
    if (watching_) {
        host_.on_watching();
    }
    return {};
}

} // namespace memleax
