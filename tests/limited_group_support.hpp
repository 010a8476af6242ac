// SPDX-License-Identifier: GPL-3.0-or-later
/// A control group of a test's own, with a limit.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include <sys/types.h>

namespace memleax::testing {

/// Of which version of control groups, and of what (cgroups(7)).
struct GroupLimit {
    const char* name;
    const char* type;   ///< of file system
    const char* option; ///< of its mount, between commas
    const char* file;
};
void PrintTo(const GroupLimit& limit, std::ostream* out);

inline constexpr GroupLimit kMemoryLimits[] = {
    {"version_1", "cgroup", ",memory,", "memory.limit_in_bytes"},
    {"version_2", "cgroup2", ",", "memory.max"}};
inline constexpr GroupLimit kProcessLimits[] = {{"version_1", "cgroup", ",pids,", "pids.max"},
                                                {"version_2", "cgroup2", ",", "pids.max"}};

/// Empty where there is none to be had. It goes with the last process in it, for which it waits.
class LimitedGroup {
  public:
    LimitedGroup(const GroupLimit& limit, std::uint64_t most);
    ~LimitedGroup();
    LimitedGroup(const LimitedGroup&) = delete;
    LimitedGroup& operator=(const LimitedGroup&) = delete;

    /// What the process has had before stays where it was.
    bool takes(pid_t member) const;
    std::string name() const;
    bool limit_to(std::uint64_t most) const;

  private:
    bool put(const std::string& file, const std::string& text) const;
    std::string limit_file_;
    std::string folder_;
};

} // namespace memleax::testing
