// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/options.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace memleax {

namespace {

constexpr int kUsageError = 2;
constexpr unsigned kMaxBacktrace = 256;
constexpr int kMaxExitCode = 255;
/// Longer than any session; keeps nanoseconds within 64 bits.
constexpr double kMaxSeconds = 1e9;

EarlyExit usage_error(const std::string& what) {
    return {kUsageError, fmt::format("memleax: {} (try 'memleax --help')\n", what)};
}

/// Seconds as people write them: "10", "0.5".
CLI::Validator seconds_above_zero() {
    return {[](std::string& text) -> std::string {
                double value = 0;
                const auto [end, error] =
                    std::from_chars(text.data(), text.data() + text.size(), value);
                if (error != std::errc() || end != text.data() + text.size() || !(value > 0) ||
                    value > kMaxSeconds) {
                    return fmt::format("'{}' is not a number of seconds above 0", text);
                }
                return {};
            },
            "SECONDS"};
}

/// Digits: strtoull, which CLI11 calls, takes "-1" for the largest number.
CLI::Validator whole_number() {
    return {[](std::string& text) -> std::string {
                const bool digits = !text.empty() && text.size() < 19 &&
                                    text.find_first_not_of("0123456789") == std::string::npos;
                return digits ? "" : fmt::format("'{}' is not a whole number", text);
            },
            ""};
}

/// A process id, or what is wrong with the text.
std::variant<int, std::string> parse_pid(const std::string& text) {
    int pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error == std::errc::result_out_of_range) {
        return fmt::format("'{}' is too large for a process id", text);
    }
    if (error != std::errc() || end != text.data() + text.size() || pid <= 0) {
        return fmt::format("'{}' is not a process id (a number above 0)", text);
    }
    return pid;
}

const std::map<std::string, Options::Format> kFormats{{"text", Options::Format::text},
                                                      {"json", Options::Format::json}};
const std::map<std::string, LogLevel> kLevels{{"error", LogLevel::error},
                                              {"warning", LogLevel::warning},
                                              {"info", LogLevel::info},
                                              {"debug", LogLevel::debug}};

template <class T> CLI::Validator one_of(const std::map<std::string, T>& names) {
    return {[&names](std::string& text) -> std::string {
                if (names.contains(text)) {
                    return {};
                }
                std::string all;
                for (const auto& [name, value] : names) {
                    all += (all.empty() ? "" : ", ") + name;
                }
                return fmt::format("'{}' is none of {}", text, all);
            },
            ""};
}

/// The declaration of all options; `format` and `log` are filled as words.
struct Parser {
    CLI::App app{"Tells where a running process leaks memory.", "memleax"};
    std::vector<std::string> words;
    std::string format = "text";
    std::string log = "info";
    double time_s = 0;
    bool version = false;

    explicit Parser(Options& options) {
        app.add_option("PID", words, "the process to watch")->type_name("");
        app.add_option("-e,--expire", options.expire_s,
                       "a block that lives longer is taken for leaked (default 10)")
            ->check(seconds_above_zero());
        app.add_option("-t,--time", time_s, "watch that long, report, leave")
            ->check(seconds_above_zero());
        app.add_option("-l,--backtrace-limit", options.backtrace_limit,
                       "frames of a backtrace, 1 to 256 (default 50)")
            ->check(CLI::Range(1U, kMaxBacktrace))
            ->type_name("N");
        app.add_option("-m,--memory-block-max", options.memory_block_max,
                       "stop at so many expired blocks at one call stack (default 1000; 0: never)")
            ->check(whole_number())
            ->type_name("N");
        app.add_option("-c,--call-stack-max", options.call_stack_max,
                       "stop at so many call stacks with expired blocks (default 1000; 0: never)")
            ->check(whole_number())
            ->type_name("N");
        app.add_option("-d,--debug-info", options.debug_info, "the program's debug information")
            ->type_name("FILE");
        app.add_option("-o,--output", options.output, "write the report there (default: stdout)")
            ->type_name("FILE");
        app.add_option("-F,--format", format, "text or json")
            ->check(one_of(kFormats))
            ->type_name("FORMAT");
        app.add_flag("-q,--quiet", options.quiet, "final report only");
        app.add_option("--error-exitcode", options.error_exitcode,
                       "exit with N if expired blocks are live at the end")
            ->check(CLI::Range(1, kMaxExitCode))
            ->type_name("N");
        app.add_option("--log", log, "error, warning, info or debug (default info)")
            ->check(one_of(kLevels))
            ->type_name("LEVEL");
        app.add_flag("-v,--version", version, "print the version");
    }
};

/// CLI11's own usage line knows nothing of commands.
std::string help_text(const CLI::App& app) {
    std::string text = app.help();
    const std::size_t begin = text.find("Usage:");
    if (begin != std::string::npos) {
        text.replace(begin, text.find('\n', begin) - begin,
                     "Usage: memleax [OPTION]... PID\n"
                     "       memleax [OPTION]... -- COMMAND [ARG]...");
    }
    return text;
}

} // namespace

std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv) {
    Options options;
    Parser parser(options);

    // CLI11 takes what follows "--" for positionals, and would look for options among them.
    int own = 1;
    while (own < argc && std::strcmp(argv[own], "--") != 0) {
        ++own;
    }
    const bool has_command = own < argc;
    for (int i = own + 1; i < argc; ++i) {
        options.command.emplace_back(argv[i]);
    }
    std::vector<std::string> words; // CLI11 wants them last first
    for (int i = own - 1; i > 0; --i) {
        words.emplace_back(argv[i]);
    }

    try {
        parser.app.parse(words);
    } catch (const CLI::CallForHelp&) {
        return EarlyExit{0, help_text(parser.app)};
    } catch (const CLI::ParseError& error) {
        return usage_error(error.what());
    }
    if (parser.version) {
        return EarlyExit{0, fmt::format("memleax {}\n", MEMLEAX_VERSION)};
    }
    options.format = kFormats.at(parser.format);
    options.log_level = kLevels.at(parser.log);
    if (parser.time_s > 0) {
        options.time_s = parser.time_s;
    }

    if (has_command && options.command.empty()) {
        return usage_error("there is no COMMAND after '--'");
    }
    if (has_command && !parser.words.empty()) {
        return usage_error(fmt::format("'{}' and a COMMAND: give one of them", parser.words[0]));
    }
    if (!has_command && parser.words.empty()) {
        return usage_error("no PID and no COMMAND is given");
    }
    if (parser.words.size() > 1) {
        return usage_error(fmt::format("'{}': only one PID can be watched", parser.words[1]));
    }
    if (!parser.words.empty()) {
        auto pid = parse_pid(parser.words[0]);
        if (const auto* wrong = std::get_if<std::string>(&pid)) {
            return usage_error(*wrong);
        }
        options.pid = std::get<int>(pid);
    }
    return options;
}

} // namespace memleax
