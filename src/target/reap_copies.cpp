// SPDX-License-Identifier: GPL-3.0-or-later
// The end of copies of a process: it has to reap them itself, as any other children.
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/own_thread.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/exit_signal.hpp"
#include "memleax/proc/pid_namespace.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/process_copy.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

Error is_left(Tid pid, Tid copy, const std::string& why) {
    return Error(fmt::format("process {} keeps a dead child of memleax's ({}) until it ends: {}",
                             pid.value(), copy.value(), why));
}

/// Its tracer is this thread: it was born when that had come to the process already, after the
/// death of the one that had asked for it.
void reap_as_tracer(Target& target, Tid copy) {
    int status = 0;
    while (waitpid(copy.value(), &status, __WALL | __WNOTHREAD) > 0 && WIFSTOPPED(status)) {
    }
    target.parts().births.forget(copy);
    target.parts().remove_thread(copy);
}

/// A copy's end takes the kernel as long as to let go of its memory. One that is still traced by a
/// tracer that is dying is let go of by that, too.
bool await_end(Target& target, Tid copy) {
    constexpr std::int64_t kMostMs = 20'000;
    kill(copy.value(), SIGKILL);
    for (const Patience patience(kMostMs); !patience.is_over(); poll(nullptr, 0, 1)) {
        const auto info = try_read_process_info(copy);
        if (!info || (info->has_ended() && info->tracer.value() == 0)) {
            return true;
        }
        if (info->tracer.value() == gettid()) {
            reap_as_tracer(target, copy);
        }
    }
    return false;
}

/// One that is dead.
Result<void> reap(Target& target, Tid copy) {
    const Tid pid = target.pid();
    const int number = own_number_of(copy);
    const auto thread = target.borrower().borrow_thread(ThreadBorrower::OnSignal::wait_on);
    if (!thread) {
        return is_left(pid, copy, thread.error().message());
    }
    const auto reaped =
        target.system_call(*thread, SYS_wait4, {static_cast<std::uint64_t>(number), 0, __WALL, 0});
    if (!reaped) {
        return is_left(pid, copy, reaped.error().message());
    }
    if (*reaped != number && *reaped != -ECHILD) { // the process may have reaped it itself
        return is_left(pid, copy, fmt::format("wait4: {}", *reaped));
    }
    return {};
}

} // namespace

Result<void> reap_copies(Target& target) {
    const Tid pid = target.pid();
    const std::vector<Tid> copies = children_with_exit_signal(pid, ProcessCopy::kExitSignal);
    for (const Tid copy : copies) {
        if (!await_end(target, copy)) {
            return is_left(pid, copy, "it does not end");
        }
        if (auto reaped = reap(target, copy); !reaped) {
            return reaped;
        }
    }
    target.record().has_copy.store(0);
    return {};
}

void keep_copy(Target& target, std::shared_ptr<ProcessCopy> copy) {
    target.parts().copy = std::move(copy);
}

Result<void> end_copy(Target& target) {
    const std::shared_ptr<ProcessCopy> copy = target.parts().copy;
    if (copy == nullptr) {
        return {};
    }
    copy->end();
    const auto info = try_read_process_info(copy->pid());
    // Else the process has reaped it itself, and somebody else may have its number.
    if (info && info->parent == target.pid() &&
        has_exit_signal(copy->pid(), ProcessCopy::kExitSignal)) {
        if (auto reaped = reap(target, copy->pid()); !reaped) {
            return reaped;
        }
    }
    target.parts().copy = nullptr;
    target.record().has_copy.store(0);
    return {};
}

// By a thread that ends afterwards: those of the process that were not stopped are let go of by
// that.
Result<void> reap_copies(Tid pid, const std::shared_ptr<RecoveryRecord>& record) {
    Result<void> reaped;
    const bool is_done = in_own_thread([&] {
        Tracer tracer(nullptr);
        auto target = Target::seize(tracer, pid, record);
        if (target) {
            reaped = reap_copies(**target);
        } else if (const auto info = try_read_process_info(pid); info && !info->has_ended()) {
            reaped = std::move(target).error();
        }
    });
    return is_done ? std::move(reaped) : Error("cannot start a thread", EAGAIN);
}

} // namespace memleax
