// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/supervise/process_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_list.hpp"
#include "memleax/target/other_guardians.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "tick_timer.hpp"
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

/// Nothing speaks against watching it.
Result<void> check_free(Tid pid) {
    auto watchable = check_watchable(pid);
    return watchable ? await_other_guardians(pid) : std::move(watchable).error();
}

Error another_by_now(const WatchedProcess& process) {
    return Error(fmt::format("process {} is another one by now", process.pid().value()));
}

} // namespace

ProcessTree::ProcessTree(Host& host, const Options& options)
    : host_(host), options_(options),
      search_(options.allocators, options.debug_sources, options.debug_file) {}

ProcessTree::~ProcessTree() = default;

WatchedProcess& ProcessTree::add(Tid pid, const WatchedProcess* parent) {
    processes_.push_back(std::make_unique<WatchedProcess>(*this, pid, parent));
    return *processes_.back();
}

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

WatchedProcess* ProcessTree::find(Tid pid) const {
    const auto found = std::find_if(processes_.begin(), processes_.end(),
                                    [pid](const auto& each) { return each->pid() == pid; });
    return found != processes_.end() ? found->get() : nullptr;
}

Result<void> ProcessTree::attach_one(Tracer& tracer, Tid pid, const WatchedProcess* parent) {
    if (auto watchable = check_free(pid); !watchable) {
        return watchable;
    }
    // Symbols are read while nothing is seized yet: a thread that is born meanwhile does not wait.
    WatchedProcess& process = add(pid, parent);
    auto begun = begin(tracer, process, false);
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
        if (auto begun = attach_one(tracer, pid, nullptr); !begun) {
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
        for (const Descendant& child : find_descendants(ancestors)) {
            const auto info = try_read_process_info(child.pid);
            if (!seen.insert(child.pid).second || find(child.pid) != nullptr || !info ||
                info->tracer.value() == gettid()) {
                continue;
            }
            handle_waiting_stops(tracer, stop);
            if (stop.load(std::memory_order_relaxed)) {
                return;
            }
            any = true;
            if (auto begun = attach_one(tracer, child.pid, find(child.parent)); !begun) {
                problems->push_back(std::move(begun).error());
            }
        }
    }
}

// Not until none is left: threads that allocate all the time stop as fast as a slow CPU (or a nice
// one) handles it.
void ProcessTree::handle_waiting_stops(Tracer& tracer, const std::atomic<bool>& stop) {
    if (processes_.empty()) {
        return;
    }
    constexpr std::int64_t kMostMs = 10;
    running_ = true;
    for (const Patience patience(kMostMs);
         !patience.is_over() && !stop.load(std::memory_order_relaxed);) {
        const auto next = tracer.next_stop(Tracer::Wait::poll);
        if (!next) {
            break;
        }
        next->target->handler()->on_stop(next->event);
    }
    if (needs_ticks()) {
        tick();
    }
    running_ = false;
}

void ProcessTree::on_watching() {
    watching_ = true;
    if (!beginning_) {
        host_.on_watching();
    }
}

Result<void> ProcessTree::begin(Tracer& tracer, WatchedProcess& process, bool gap) {
    auto looked = look_at(process);
    if (!looked) {
        return looked;
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
        return another_by_now(process);
    }
    if (process.executes_another()) {
        if (auto again = process.look(); !again) {
            return again;
        }
        if (auto reopened = (*target)->reopen_memory(); !reopened) {
            return reopened;
        }
    }
    return process.watch(*std::move(target), gap);
}

Result<void> ProcessTree::resume(Tracer& tracer) {
    std::optional<Error> problem;
    bool any = false;
    beginning_ = true;
    const auto resume_one = [this, &tracer](WatchedProcess& process) -> Result<void> {
        if (auto watchable = check_free(process.pid()); !watchable) {
            return watchable;
        }
        if (!is_still(process)) {
            return another_by_now(process);
        }
        return begin(tracer, process, true);
    };
    for (const auto& process : processes_) {
        auto resumed = resume_one(*process);
        any = any || resumed.ok();
        if (!resumed && !problem) {
            problem = std::move(resumed).error();
        }
    }
    beginning_ = false;
    if (!any && problem) {
        return *std::move(problem);
    }
    for (const auto& process : processes_) {
        if (process->target() == nullptr) {
            process->note_end(); // or it is out of our reach, which is the same to us
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

bool ProcessTree::take_child(WatchedProcess& parent, Tid child, bool forked) {
    if (!options_.follow || !running_) {
        return false;
    }
    auto target = Target::take_over(*parent.target(), child);
    if (!target) {
        log_debug("child {}: {}", child.value(), target.error().message());
        return false;
    }
    auto process = std::make_unique<WatchedProcess>(*this, child, &parent);
    auto watched = process->look();
    if (watched && !process->has_allocator() && (forked || process->is_static())) {
        log_debug("{}", process->no_allocator().message());
        return true; // let go of, with its Target
    }
    if (watched) {
        watched = process->watch(*std::move(target), false);
    }
    if (!watched) {
        log_warning("child {} is not watched: {}", child.value(), watched.error().message());
        return true;
    }
    processes_.push_back(std::move(process));
    return true;
}

WatchEnd ProcessTree::run(Tracer& tracer, const std::atomic<bool>& stop) {
    running_ = true;
    TickTimer timer;
    pace_ = TickPace();
    while (!stop.load(std::memory_order_relaxed) || !is_ready_to_leave()) {
        std::optional<Tracer::Stop> next;
        {
            std::optional<TickTimer::Wait> wait; // two system calls
            bool is_tick_due = false;            // then its signal may have come, and ends no wait
            if (needs_ticks()) {
                timer.set_period(pace_.period());
                wait.emplace(timer);
                is_tick_due = pace_.is_due(monotonic_now());
            }
            next = tracer.next_stop(is_tick_due ? Tracer::Wait::poll : Tracer::Wait::block);
        }
        if (next) {
            next->target->handler()->on_stop(next->event);
            pace_.on_stop(std::holds_alternative<SignalStop>(next->event));
        } else {
            // Only here does the list stay as it is.
            for (const auto& process : processes_) {
                process->on_silence();
            }
        }
        if (needs_ticks()) {
            tick();
        } else {
            timer.set_period(0);
        }
        host_.between_stops();
        if (any_ended_) {
            sweep();
            if (processes_.empty()) {
                break;
            }
        }
    }
    running_ = false;
    return processes_.empty() ? WatchEnd::target_gone : WatchEnd::requested;
}

// Asked once it is to stop.
bool ProcessTree::is_ready_to_leave() {
    if (running_) {
        running_ = false;
        pace_.hurry();
        for (const auto& process : processes_) {
            process->begin_to_leave(processes_.size() == 1);
        }
    }
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->is_ready_to_leave(); });
}

Result<void> ProcessTree::perform(Tid pid, TargetState state, const TargetWork& work) {
    WatchedProcess* process = find(pid);
    return process != nullptr
               ? process->perform(state, work)
               : Error(fmt::format("process {} is not watched any more", pid.value()), ESRCH);
}

bool ProcessTree::needs_ticks() const {
    return options_.engine != EngineChoice::int3 || options_.allocators->tracked().faults ||
           std::any_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->needs_ticks(); });
}

void ProcessTree::tick() {
    const MonotonicNs begin = monotonic_now();
    if (!pace_.is_due(begin)) {
        return;
    }
    // Is it to be left, that is waited for.
    std::int64_t within = running_ ? Watch::kAnyTime : TickPace::kSoonNs;
    host_.before_tick();
    for (const auto& process : processes_) {
        within = std::min(within, process->on_tick());
    }
    host_.after_tick();
    pace_.on_tick(begin, monotonic_now(), within);
}

void ProcessTree::sweep() {
    any_ended_ = false;
    std::erase_if(processes_, [](const auto& process) { return process->has_ended(); });
}

void ProcessTree::leave() {
    running_ = false;
    // Children first: a parent that waits for one by vfork cannot be stopped while that waits for
    // its turn. And while we wait for one whose threads are all in transfers, the others' stops
    // would wait, too.
    const auto leave_those_that = [this](auto&& can) {
        std::for_each(processes_.rbegin(), processes_.rend(), [&can](const auto& process) {
            if (can(*process)) {
                process->leave(); // once is enough
            }
        });
    };
    leave_those_that([](WatchedProcess& process) {
        return process.target() == nullptr || process.target()->borrower().has_thread_to_borrow();
    });
    leave_those_that([](WatchedProcess& /*process*/) { return true; });
    for (const auto& process : processes_) {
        process->forget_target();
    }
    watching_ = false;
    sweep();
}

} // namespace memleax
