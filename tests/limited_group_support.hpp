// SPDX-License-Identifier: GPL-3.0-or-later
/// A control group of a test's own, with a limit.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include <sys/types.h>

#include "elf_support.hpp"

namespace memleax::testing {

/// Of which version of control groups, and of what (cgroups(7)).
struct GroupLimit {
    const char* name;
    const char* type;   ///< of file system
    const char* option; ///< of its mount, between commas
    const char* file;
    const char* swap; ///< 0 in this file keeps it from swapping; null if it is not about memory
};
void PrintTo(const GroupLimit& limit, std::ostream* out);

inline constexpr GroupLimit kMemoryLimits[] = {
    {"version_1", "cgroup", ",memory,", "memory.limit_in_bytes", "memory.swappiness"},
    {"version_2", "cgroup2", ",", "memory.max", "memory.swap.max"}};
inline constexpr GroupLimit kProcessLimits[] = {
    {"version_1", "cgroup", ",pids,", "pids.max", nullptr},
    {"version_2", "cgroup2", ",", "pids.max", nullptr}};

/// Empty where there is none to be had. It goes with the last process in it, for which it waits.
class LimitedGroup {
  public:
    enum class Swap { no, yes };
    LimitedGroup(const GroupLimit& limit, std::uint64_t most, Swap swap = Swap::no);
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

/// The machine has room for so many bytes that are swapped out, as long as this lives.
class SwapFile {
  public:
    explicit SwapFile(std::uint64_t size);
    ~SwapFile();
    SwapFile(const SwapFile&) = delete;
    SwapFile& operator=(const SwapFile&) = delete;

    [[nodiscard]] bool is_used() const { return is_used_; }

  private:
    test::TemporaryFolder folder_;
    std::string path_;
    bool is_used_ = false;
};

} // namespace memleax::testing
