// SPDX-License-Identifier: GPL-3.0-or-later
/// What options, each of them right, must have to do with one another. All throw UsageError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memleax/cli/options.hpp"
#include "option_description.hpp"

namespace memleax {

/// `--output=` with nothing behind it, a script's unset variable: CLI11 takes the next word for the
/// value, a PID for one.
void refuse_empty_values(const std::vector<OptionDescription>& options,
                         const std::vector<std::string>& words);

/// PIDs and names, or the command, and not both.
void take_target(const std::vector<std::string>& positionals, bool has_command, Options& options);

/// Within the time that is given there must be some for blocks to expire: else the report would be
/// an all-clear that says nothing. `given` is --expire's value.
void take_expiry(std::optional<double> given, Options& options);

/// There is something to print, and somewhere to print it.
void check_events(const Options& options);

/// There is a terminal of ours for a prompt, and nothing that speaks against one. Sees to that
/// there is one.
void check_live(Options& options);

/// The engine that another unwinder needs. Chooses it, if no other one is asked for.
void check_unwinder(Options& options);

/// A status is told, if it is said of what: a script would see no leak, ever.
void check_errors(bool has_errors_for, const Options& options);

/// A terminal would take bytes of the report for commands.
void refuse_binary_on_terminal(const Options& options);

} // namespace memleax
