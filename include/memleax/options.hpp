// SPDX-License-Identifier: GPL-3.0-or-later
/// The command line, understood.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memleax/allocator_api.hpp"
#include "memleax/log.hpp"
#include "memleax/report_writer.hpp"

namespace memleax {

struct Options {
    enum class Color { automatic, always, never };
    enum class Progress { automatic, never };
    /// Of the prompt: if stdin and stdout are terminals and there is no --time; or in any case; or
    /// never.
    enum class Interactive { automatic, always, never };

    std::optional<int> pid;           ///< watch this process, or
    std::vector<std::string> command; ///< start this program and watch it
    double expire_s = 10;
    std::optional<double> time_s; ///< leave after that long; counted from "watching"
    unsigned backtrace_limit = 50;
    std::uint64_t memory_block_max = 1000; ///< 0: no limit
    std::uint64_t call_stack_max = 1000;   ///< 0: no limit
    std::optional<int> ns_pid;             ///< that one of the PID namespace that `pid` is in
    std::string debug_info;
    std::vector<std::string> debug_folders;
    std::string output;                                   ///< "": stdout
    const ReportFormat* format = report_formats().data(); ///< text
    bool quiet = false;
    bool follow_forks = false;
    Interactive interactive = Interactive::automatic;
    std::vector<std::string> commands; ///< -x: run just before the target is let go
    Color color = Color::automatic;
    Progress progress = Progress::automatic;
    std::optional<double> interval_s; ///< print the worst call stacks that often, ...
    std::uint64_t interval_count = 0; ///< ... that many times; 0: until the end
    std::uint64_t top = 10;           ///< and that many of them
    int error_exitcode = 0;
    bool check = false; ///< look for frees that are wrong, at the cost of a stack walk for each
    LogLevel log_level = LogLevel::info;
    bool events = false; ///< print calls that map memory, as they happen
    /// What is watched: known allocators, and those that the user has named.
    std::shared_ptr<const AllocatorApi> allocators = std::make_shared<const AllocatorApi>();
};

/// Nothing to watch: --help, --version, or a wrong command line.
struct EarlyExit {
    int status = 0;   ///< 0, or 2 for wrong usage
    std::string text; ///< for stdout if status is 0, else for stderr
};

/// Options and PID may come in any order; what follows `--` is the command, as it is.
std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv);

} // namespace memleax
