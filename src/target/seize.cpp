// SPDX-License-Identifier: GPL-3.0-or-later
// Seizing all of a process, also one that executes a program at that moment.
#include <algorithm>
#include <cerrno>
#include <set>
#include <variant>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/target.hpp"
#include "ptrace_options.hpp"
#include "target_parts.hpp"
#include "while_seizing.hpp"

namespace memleax {

namespace {

/// Dead by now, or on its way there (EPERM when its memory has gone), or born of a seized thread
/// and ours already.
bool has_no_need(const ProcessInfo& info) {
    return info.has_ended() || info.is_exiting || info.tracer.value() == gettid();
}

/// Seizes a thread, or finds out that there is no need to: true if it was seized.
Result<bool> try_seize(Tid tid) {
    // While another thread of its process executes a program the first thread is dead for a moment,
    // and refuses, and then lives again as that other one.
    constexpr int kTries = 3;
    int errnum = 0;
    for (int i = 0; i < kTries; ++i) {
        if (ptrace(PTRACE_SEIZE, tid.value(), nullptr, kPtraceOptions) == 0) {
            return true;
        }
        errnum = errno;
        const auto info = try_read_process_info(tid);
        if (!info || has_no_need(*info)) {
            return false;
        }
    }
    return Error("cannot seize", errnum);
}

/// One of a process that has turned out to be a stranger. False: it is not ours any more. Those
/// that it has forked meanwhile, which are ours from their birth, are added to `processes`.
bool let_go_of_strangers_thread(Target& target, Tid tid, std::set<Tid>* processes) {
    Target::Parts& parts = target.parts();
    parts.births.forget(tid);
    const auto info = try_read_process_info(tid);
    if (!info || info->tracer.value() != gettid()) {
        return false;
    }
    if (info->has_ended()) { // and is still there until we are told
        (void)parts.waits.wait_for(tid, WNOHANG);
        return false;
    }
    if (parts.threads.find(tid) == nullptr) {
        parts.add_thread(tid).is_child_process = true;
    }
    if (!target.stop_and_defer(tid)) {
        return false;
    }
    while (const auto event = target.take_deferred(tid)) {
        if (const auto* birth = std::get_if<BirthStop>(&*event)) {
            processes->insert(birth->child);
        }
    }
    target.detach(tid, target.stop_signal(tid));
    return true;
}

/// Of a process that has turned out to have executed a program since it was looked at: each thread
/// that was seized, and what those have made since.
void let_go_of_stranger(Target& target, Tid process) {
    constexpr int kMostPasses = 16; // whoever makes another one stops then, so it takes two
    std::set<Tid> processes{process};
    bool found = true;
    for (int pass = 0; found && pass < kMostPasses; ++pass) {
        found = false;
        for (const Tid each : std::set<Tid>(processes)) {
            for (const Tid tid : list_threads(each)) {
                found = let_go_of_strangers_thread(target, tid, &processes) || found;
            }
        }
    }
}

} // namespace

Result<std::unique_ptr<Target>> Target::seize(Tracer& tracer, Tid pid,
                                              std::shared_ptr<RecoveryRecord> record) {
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return explain_seize_failure(pid, memory.error().errnum());
    }
    std::unique_ptr<Target> target(new Target(tracer, pid, *std::move(memory), std::move(record)));
    target->was_running_ = true;
    std::vector<Tid> reaped; // their end is no news, as nobody knows them
    auto seized = target->seize_others(&reaped);
    if (!seized) {
        return std::move(seized).error();
    }
    if (target->threads().empty()) {
        return Error(fmt::format("no such process: {}", pid.value()));
    }
    return target;
}

// Without anybody to seize, as most often, no thread that reaps is made, and waited for: beside a
// hundred busy threads that takes its time.
Result<void> Target::seize_untraced() {
    const auto is_all_ours = [this](Tid process) {
        const std::vector<Tid> tids = list_threads(process);
        return std::all_of(tids.begin(), tids.end(), [this](Tid tid) {
            if (is_seized(tid) || is_kernels_worker(tid)) {
                return true;
            }
            const auto info = try_read_process_info(tid);
            return !info || has_no_need(*info);
        });
    };
    const std::vector<Tid> sharers = processes_sharing_memory(pid_);
    if (is_all_ours(pid_) && std::all_of(sharers.begin(), sharers.end(), is_all_ours)) {
        return {};
    }
    std::vector<Tid> reaped;
    auto seized = seize_others(&reaped);
    for (const Tid tid : reaped) {
        defer(ThreadGone{tid});
    }
    return seized;
}

Result<std::unique_ptr<Target>> Target::take_over(Target& parent, Tid child) {
    auto memory = RemoteMemory::open(child);
    if (!memory) {
        return std::move(memory).error();
    }
    const TracedThread* known = parent.parts().threads.find(child);
    const bool in_system_call = known != nullptr && known->in_system_call;
    parent.parts().remove_thread(child);
    std::unique_ptr<Target> target(new Target(parent.parts().tracer, child, *std::move(memory)));
    TracedThread& thread = target->parts().add_thread(child);
    thread.state = TracedThread::State::stopped;
    thread.in_system_call = in_system_call;
    target->defer(QuietStop{child});
    return target;
}

Result<void> Target::seize_others(std::vector<Tid>* reaped) {
    // A thread that an unseized one clones during a pass is found by the next; one that a seized
    // one clones is ours from its birth. So a pass that finds nobody new has found all.
    WhileSeizing reaper(pid_);
    const auto seize_all_of = [&](Tid process) -> Result<bool> {
        reaper.also(process);
        bool any = false;
        for (bool found = true; found;) {
            found = false;
            for (const Tid tid : list_threads(process)) {
                if (is_seized(tid) || is_kernels_worker(tid)) {
                    continue;
                }
                auto seized = try_seize(tid);
                if (!seized) {
                    return explain_seize_failure(process, seized.error().errnum());
                }
                if (*seized) {
                    reaper.add(tid);
                    parts_->add_thread(tid).is_child_process = process != pid_;
                    any = found = true;
                }
            }
        }
        return any;
    };
    auto seized = seize_all_of(pid_);
    // Children that share the memory would run into our breakpoints with nobody to catch them.
    for (bool found = true; seized && found;) {
        found = false;
        for (const Tid child : processes_sharing_memory(pid_)) {
            // Meanwhile all others were looked at, which is long enough for a program to be
            // executed, and to see that it is traced.
            if (!shares_memory(pid_, child)) {
                continue;
            }
            seized = seize_all_of(child);
            if (!seized) {
                break;
            }
            found = found || *seized;
            if (*seized && !shares_memory(pid_, child)) {
                let_go_of_stranger(*this, child);
            }
        }
    }
    *reaped = reaper.finish();
    for (const Tid tid : *reaped) {
        parts_->remove_thread(tid);
    }
    if (!seized) {
        return std::move(seized).error();
    }
    return {};
}

bool Target::is_seized(Tid tid) const {
    if (!threads().contains(tid)) {
        return false;
    }
    const auto info = tid == pid_ ? try_read_process_info(tid) : std::nullopt;
    return !info || info->has_ended() || info->tracer.value() == gettid();
}

} // namespace memleax
