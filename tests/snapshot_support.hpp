// SPDX-License-Identifier: GPL-3.0-or-later
/// What must be the same in a target before memleax came and after it went.
///
/// Read from outside, by /proc, while the target waits for its test: executable bytes, the list of
/// mappings, the tracer, and each thread's signal masks. What the target changes itself while it
/// works (heap, stacks, files that it maps or unmaps) is none of that.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace memleax::testing {

struct Mapping {
    std::string permissions;
    std::string file; ///< with its offset and inode; empty for anonymous memory
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool is_executable() const { return permissions.find('x') != std::string::npos; }
};

struct TargetSnapshot {
    /// Lines of /proc/PID/maps as they are, but those of anonymous memory that cannot be executed:
    /// malloc makes and unmakes them. A slot arena that is left behind is executable.
    std::map<std::uint64_t, std::string> mappings;
    /// The bytes of each executable mapping, by its line in maps.
    std::map<std::string, std::string> code;
    std::string tracer;
    /// By tid: "SigBlk ... SigIgn ... SigCgt ... State", as /proc/PID/task/TID/status has them.
    std::map<pid_t, std::string> threads;
};

/// Throws std::runtime_error when the process cannot be read.
TargetSnapshot take_snapshot(pid_t pid);

/// What memleax is to be blamed for, a line each; nothing if it left the target as it was. Mappings
/// of files, and threads, that are in one of the two only are the target's own doing.
std::vector<std::string> differences(const TargetSnapshot& before, const TargetSnapshot& after);

} // namespace memleax::testing
