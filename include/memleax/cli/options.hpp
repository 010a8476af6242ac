// SPDX-License-Identifier: GPL-3.0-or-later
/// The command line, understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memleax/base/log.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

struct Options : SessionOptions {
    enum class Color { automatic, always, never };
    enum class Progress { automatic, never };
    /// Of the prompt: if stdin and stdout are terminals and there is no --time; or in any case; or
    /// never.
    enum class Interactive { automatic, always, never };

    bool quiet = false;
    Interactive interactive = Interactive::automatic;
    bool live = false;                 ///< the prompt begins with `watch stats`
    std::vector<std::string> commands; ///< -x: run just before the target is let go
    Color color = Color::automatic;
    Progress progress = Progress::automatic;
    std::optional<double> interval_s; ///< print the worst call stacks that often, ...
    std::uint64_t interval_count = 0; ///< ... that many times; 0: until the end
    std::uint64_t top = 10;           ///< and that many of them
    LogLevel log_level = LogLevel::info;
};

/// Nothing to watch: --help, --version, or a wrong command line.
struct EarlyExit {
    int status = 0;   ///< 0, or 2 for wrong usage
    std::string text; ///< for stdout if status is 0, else for stderr
};

/// Options and PID may come in any order; what follows `--` is the command, as it is.
std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv);

} // namespace memleax
