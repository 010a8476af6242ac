// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/supervise/process_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/freezer.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "tick_timer.hpp"
#include "watched_process.hpp"

namespace memleax {

ProcessTree::ProcessTree(Host& host, const Options& options)
    : host_(host), options_(options),
      search_(options.allocators, options.debug_sources, options.debug_file) {
    if (options.engine != EngineChoice::int3) {
        search_.look_for_inner_entries();
    }
}

ProcessTree::~ProcessTree() = default;

WatchedProcess& ProcessTree::add(Tid pid, const WatchedProcess* parent) {
    processes_.push_back(std::make_unique<WatchedProcess>(*this, pid, parent));
    return *processes_.back();
}

WatchedProcess* ProcessTree::find(Tid pid) const {
    const auto found = std::find_if(processes_.begin(), processes_.end(),
                                    [pid](const auto& each) { return each->pid() == pid; });
    return found != processes_.end() ? found->get() : nullptr;
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

Tracer::Meanwhile ProcessTree::serving(Tracer& tracer, const std::atomic<bool>& stop) {
    return [this, &tracer, &stop](const Target* but, std::int64_t ns) {
        constexpr timespec kPause{0, 100'000};
        const std::int64_t end = monotonic_now().value() + ns;
        const bool before = std::exchange(running_, running_ || beginning_);
        do {
            if (const auto next = tracer.next_stop_but_of(but)) {
                next->target->handler()->on_stop(next->event);
                pace_.on_stop(std::holds_alternative<SignalStop>(next->event));
            } else {
                nanosleep(&kPause, nullptr);
            }
            if (needs_ticks()) {
                tick();
            }
        } while (!stop.load(std::memory_order_relaxed) && monotonic_now().value() < end);
        running_ = before;
        return stop.load(std::memory_order_relaxed);
    };
}

void ProcessTree::on_watching() {
    watching_ = true;
    if (!beginning_) {
        host_.on_watching();
    }
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
        process->give_up();
        return true;
    }
    processes_.push_back(std::move(process));
    return true;
}

void ProcessTree::on_unwatchable(const WatchedProcess& process, Error why) {
    const bool is_last =
        std::all_of(processes_.begin(), processes_.end(), [&process](const auto& each) {
            return each.get() == &process || each->has_ended();
        });
    if (is_last && !process.is_child()) {
        unwatchable_ = std::move(why);
    } else {
        log_warning("{}", why.message());
    }
}

// At its end it stops all threads by ptrace itself, which fails where somebody else traces them,
// and ends the process with a status of its own (sanitizer_common's sanitizer_stoptheworld).
// Whether it is switched on cannot be seen.
void ProcessTree::warn_of_leak_sanitizer(Tid pid) {
    if (!told_of_leak_sanitizer_) {
        told_of_leak_sanitizer_ = true;
        log_warning("process {} has LeakSanitizer, which fails in a process that is traced: if it "
                    "ends before memleax leaves, its exit status may tell of that, and not of the "
                    "program (LSAN_OPTIONS=detect_leaks=0 prevents that)",
                    pid.value());
    }
}

Result<WatchEnd> ProcessTree::run(Tracer& tracer, const std::atomic<bool>& stop) {
    running_ = true;
    meanwhile_ = serving(tracer, stop);
    tracer_ = &tracer;
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
    tracer_ = nullptr;
    if (processes_.empty() && unwatchable_) {
        return *std::exchange(unwatchable_, std::nullopt);
    }
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
    // would wait, too. Last of all those that are frozen, for as long as somebody likes: their code
    // goes back late, but nobody executes it.
    const auto leave_those_that = [this](auto&& can) {
        std::for_each(processes_.rbegin(), processes_.rend(), [&can](const auto& process) {
            if (can(*process)) {
                process->leave(); // once is enough
            }
        });
    };
    const auto is_thawed = [](WatchedProcess& process) { return !file_of_freezer(process.pid()); };
    leave_those_that([&](WatchedProcess& process) {
        return process.target() == nullptr ||
               (is_thawed(process) && process.target()->borrower().has_thread_to_borrow());
    });
    leave_those_that(is_thawed);
    leave_those_that([](WatchedProcess& /*process*/) { return true; });
    for (const auto& process : processes_) {
        process->forget_target();
    }
    watching_ = false;
    sweep();
}

} // namespace memleax
