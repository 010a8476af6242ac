// SPDX-License-Identifier: GPL-3.0-or-later
#include "option_checks.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/report/live_lines.hpp"
#include "memleax/unwind/libunwind_walker.hpp"
#include "option_values.hpp"

namespace memleax {

namespace {

bool takes_value(const std::vector<OptionDescription>& options, const std::string& name) {
    return std::any_of(options.begin(), options.end(), [&name](const OptionDescription& option) {
        return !option.value.empty() &&
               std::find(option.names.begin(), option.names.end(), name) != option.names.end();
    });
}

} // namespace

void refuse_empty_values(const std::vector<OptionDescription>& options,
                         const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word.starts_with("--")) {
            const std::string name = word.substr(0, word.find('='));
            if (takes_value(options, name) && word.size() == name.size() + 1) {
                throw UsageError(fmt::format("{} needs a value", name));
            }
            i += takes_value(options, name) && word == name ? 1 : 0; // its value may be any word
            continue;
        }
        const std::string letters = word.starts_with("-") ? word.substr(1) : "";
        const auto first = std::find_if(letters.begin(), letters.end(), [&options](char letter) {
            return takes_value(options, {'-', letter});
        });
        i += first != letters.end() && first + 1 == letters.end() ? 1 : 0;
    }
}

void take_target(const std::vector<std::string>& positionals, bool has_command, Options& options) {
    if (has_command && options.command.empty()) {
        throw UsageError("there is no COMMAND after '--'");
    }
    if (has_command && !positionals.empty()) {
        throw UsageError(fmt::format("'{}' and a COMMAND: give one of them", positionals[0]));
    }
    const auto refuse_with_command = [has_command](bool is_given, const char* option) {
        if (has_command && is_given) {
            throw UsageError(fmt::format("{} and a COMMAND: give one of them", option));
        }
    };
    refuse_with_command(!options.pids.empty(), "--pid");
    refuse_with_command(!options.names.empty(), "--name");
    refuse_with_command(options.children, "--children");
    refuse_with_command(options.ns_pid.has_value(), "--ns-pid");
    if (has_command) {
        return;
    }
    std::vector<int> pids;
    pids.reserve(positionals.size());
    for (const std::string& positional : positionals) {
        pids.push_back(parse_pid(positional));
    }
    options.pids.insert(options.pids.begin(), pids.begin(), pids.end());
    if (options.pids.empty() && options.names.empty()) {
        throw UsageError("no PID and no COMMAND is given");
    }
    if (options.ns_pid && (options.pids.size() != 1 || !options.names.empty())) {
        throw UsageError("--ns-pid: goes with one PID, that of a process of the namespace");
    }
}

void take_expiry(std::optional<double> given, Options& options) {
    constexpr double kParts = 3;
    if (!given) {
        if (options.time_s) {
            options.expire_s = std::min(options.expire_s, *options.time_s / kParts);
        }
        return;
    }
    options.expire_s = *given;
    if (options.time_s && *given >= *options.time_s) {
        throw UsageError(fmt::format(
            "--expire: no block gets {} seconds old in the {} of --time: give less, or more time",
            seconds_text(*given), seconds_text(*options.time_s)));
    }
}

void check_events(const Options& options) {
    if (options.events && !options.allocators->tracked().any_mapped()) {
        throw UsageError("--events: no mapped memory is followed: add --track heap,mmap,brk,shm");
    }
    if (options.events && options.format->write != write_text) {
        throw UsageError("--events: goes with --format text only");
    }
}

void check_live(Options& options) {
    if (!options.live) {
        return;
    }
    if (options.interactive == Options::Interactive::never) {
        throw UsageError("--live: does not go with --no-interactive");
    }
    if (options.interval_s) {
        throw UsageError("--live: does not go with --interval");
    }
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 ||
        tcgetpgrp(STDIN_FILENO) != getpgrp()) { // memleax PID &
        throw UsageError("--live: there is no terminal to draw on; --interval prints instead");
    }
    options.interactive = Options::Interactive::always;
}

void check_unwinder(Options& options) {
    if (options.unwinder == UnwinderChoice::own) {
        return;
    }
    if (const char* reason = LibunwindWalker::reason_against()) {
        throw UsageError(fmt::format("--unwinder: this build is without libunwind: {}", reason));
    }
    if (options.engine == EngineChoice::inlined) {
        throw UsageError(fmt::format("--unwinder: {} walks the stacks of stopped threads only, and "
                                     "--engine inline does not stop them: use --engine int3",
                                     name_of(options.unwinder)));
    }
    options.engine = EngineChoice::int3;
}

void check_errors(bool has_errors_for, const Options& options) {
    if (has_errors_for && options.error_exitcode == 0) {
        throw UsageError("--errors-for: goes with --error-exitcode only");
    }
}

void refuse_binary_on_terminal(const Options& options) {
    if (options.format->is_binary && options.output.empty() && isatty(STDOUT_FILENO) == 1) {
        throw UsageError(fmt::format("--format: {} is not for a terminal: give a file with -o",
                                     options.format->name));
    }
}

} // namespace memleax
