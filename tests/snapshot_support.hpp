// SPDX-License-Identifier: GPL-3.0-or-later
/// What must be the same in a target before memleax came and after it went.
///
/// Read from outside, by /proc, while the target waits for its test: the list of mappings, the
/// bytes of those that can be executed, the tracer, and each thread's signal masks and pending
/// signals.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace memleax::testing {

struct TargetSnapshot {
    struct Mapping {
        std::string line;  ///< of /proc/PID/maps, as it is
        std::string file;  ///< or [name]; empty for anonymous memory
        std::string bytes; ///< only if it can be executed
        bool executable = false;
        bool is_of_file() const { return !file.empty() && file.front() == '/'; }
        bool operator==(const Mapping&) const = default;
    };
    struct Thread {
        std::string signals; ///< SigBlk, SigIgn, SigCgt
        std::string pending; ///< SigPnd, ShdPnd
        int tracer = 0;
        bool stopped = false; ///< in state t or T
        bool operator==(const Thread&) const = default;
    };
    std::map<std::uint64_t, Mapping> mappings; ///< by address
    std::map<pid_t, Thread> threads;
};

/// Throws std::runtime_error when the process cannot be read.
TargetSnapshot take_snapshot(pid_t pid);

/// Who may have changed the target between two snapshots.
enum class Meanwhile {
    idle,  ///< it did nothing: everything must be as it was
    worked ///< it allocated, made threads, loaded modules: these differences are its own
};

/// Without the masks of the threads with these names, which change them all the time: a snapshot
/// finds them in sigwait or sigsuspend, or not yet.
TargetSnapshot take_snapshot(pid_t pid, const std::set<std::string>& changing_masks);

/// Whenever none of its threads blocks everything, as Go's runtime does for the time in which it
/// makes a thread (runtime/os_linux.go, newosproc; runtime/cgo, x_cgo_thread_start), and it does
/// that when it likes. One left that way by us would be so for ever.
TargetSnapshot take_snapshot_between_births(pid_t pid);

/// Whenever none of its threads blocks this signal alone: in a handler of it, say, or outside of
/// sigwaitinfo(2), which unblocks what it waits for (kernel/signal.c, do_sigtimedwait).
TargetSnapshot take_snapshot_unblocked(pid_t pid, int signal);

/// Executable mappings of files in which the memory is not what the file has, a line each. Only
/// those whose file is there, by its name.
std::vector<std::string> unlike_their_files(const TargetSnapshot& snapshot);

/// All executable mappings, with their bytes: a forked child has its parent's.
std::set<std::string> code_of(const TargetSnapshot& snapshot);

/// What memleax is to be blamed for, a line each; nothing if it left the target as it was.
std::vector<std::string> differences(const TargetSnapshot& before, const TargetSnapshot& after,
                                     Meanwhile meanwhile);

} // namespace memleax::testing
