// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/cli/options.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "allocator_options.hpp"
#include "format_option.hpp"
#include "leak_check_options.hpp"
#include "option_checks.hpp"
#include "option_description.hpp"
#include "option_values.hpp"
#include "threshold_options.hpp"

namespace memleax {

namespace {

constexpr int kUsageError = 2;
constexpr unsigned kMaxBacktrace = 256;
constexpr int kMaxExitCode = 255;

const Names<LogLevel> kLevels{{"error", LogLevel::error},
                              {"warning", LogLevel::warning},
                              {"info", LogLevel::info},
                              {"debug", LogLevel::debug}};

const Names<EngineChoice> kEngines{{"auto", EngineChoice::automatic},
                                   {"int3", EngineChoice::int3},
                                   {"inline", EngineChoice::inlined}};
const Names<UnwinderChoice> kUnwinders{
    {name_of(UnwinderChoice::own), UnwinderChoice::own},
    {name_of(UnwinderChoice::libunwind), UnwinderChoice::libunwind}};
const Names<ErrorsFor> kErrors{{"lost", ErrorsFor::lost},
                               {"leaking", ErrorsFor::leaking},
                               {"suspect", ErrorsFor::suspect},
                               {"expired", ErrorsFor::expired}};
const Names<Options::Color> kColors{{"auto", Options::Color::automatic},
                                    {"always", Options::Color::always},
                                    {"never", Options::Color::never}};
const Names<Options::Progress> kProgress{{"auto", Options::Progress::automatic},
                                         {"never", Options::Progress::never}};
const Names<SnapshotWay> kSnapshots{
    {"auto", SnapshotWay::automatic}, {"copy", SnapshotWay::copy}, {"fork", SnapshotWay::fork}};

/// What the user typed comes back in the message, and it must stay one line on a terminal.
EarlyExit usage_exit(const std::string& what) {
    std::string line;
    for (const char c : what) {
        const auto byte = static_cast<unsigned char>(c);
        line += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    return {kUsageError, fmt::format("memleax: {} (try 'memleax --help')\n", line)};
}

class HelpFormat : public CLI::Formatter {
    std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
        return "\nUsage: memleax [OPTION]... PID...\n"
               "       memleax [OPTION]... -- COMMAND [ARG]...\n";
    }
};

/// The declaration of all options. The last of an option that is given twice counts, so that an
/// alias can be overruled.
class Parser {
  public:
    explicit Parser(Options& options);
    /// Throws UsageError or CLI::Error.
    void parse(std::vector<std::string> last_first);
    [[nodiscard]] std::string help() const { return app_.help(); }
    [[nodiscard]] std::vector<OptionDescription> describe() const {
        return describe_options(app_, choices_);
    }
    [[nodiscard]] const std::vector<std::string>& positionals() const { return positionals_; }
    [[nodiscard]] bool version() const { return version_; }
    /// Of --expire, if it was given.
    [[nodiscard]] std::optional<double> expire_s() const { return expire_s_; }
    /// Was --errors-for given?
    [[nodiscard]] bool has_errors_for() const { return has_errors_for_; }

  private:
    void add_allocators(Options& options);
    /// `take(name, text)` stores the value, or throws UsageError.
    template <class Take>
    void add(const std::string& names, const char* value_name, const std::string& help, Take take) {
        const std::string name = names.substr(names.find("--"));
        if constexpr (requires { take.choices(); }) {
            choices_[name] = take.choices();
        }
        app_.add_option_function<std::string>(
                names, [take, name](const std::string& text) { take(name, text); }, help)
            ->type_name(value_name)
            ->take_last();
    }

    /// The same for one that may be given several times, each time for another value.
    template <class Take>
    void add_each(const std::string& names, const char* value_name, const std::string& help,
                  Take take) {
        const auto begin = names.find("--");
        const std::string name = begin == std::string::npos ? names : names.substr(begin);
        app_.add_option_function<std::vector<std::string>>(
                names,
                [take, name](const std::vector<std::string>& texts) {
                    for (const std::string& text : texts) {
                        take(name, text);
                    }
                },
                help)
            ->type_name(value_name)
            ->allow_extra_args(false);
    }

    CLI::App app_{"Tells where a running process leaks memory.", "memleax"};
    std::vector<std::string> positionals_;
    std::optional<double> expire_s_;
    bool has_errors_for_ = false;
    OptionChoices choices_;
    bool version_ = false;
};

Parser::Parser(Options& options) {
    const auto seconds_into = [](auto& target) {
        return [&target](const std::string& name, const std::string& text) {
            target = parse_duration(name, text);
        };
    };
    const auto whole_into = [](auto& target, auto min, auto max) {
        return [&target, min, max](const std::string& name, const std::string& text) {
            target = parse_whole(name, text, min, max);
        };
    };
    const auto name_into = []<class T>(T& target, const Names<T>& names) {
        return TakeName<T>{target, names};
    };
    const auto file_into = [](std::string& target) {
        return [&target](const std::string& name, const std::string& text) {
            target = parse_file(name, text);
        };
    };
    constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

    app_.formatter(std::make_shared<HelpFormat>());
    app_.get_formatter()->column_width(31);
    app_.footer("Ctrl-C ends the watching and prints the report; with a prompt, quit does. More "
                "in\nmemleax(1).");
    app_.set_help_flag("-h,--help", "print this help");
    app_.allow_extras(); // unknown options; named in our own words
    app_.add_option("PID", positionals_)->group("");
    add("-e,--expire", "TIME",
        "age at which a block expires (default 10; with -t\na third of that time, if it is less)",
        seconds_into(expire_s_));
    add("-t,--time", "TIME", "watch that long, report, leave (COMMAND runs on)",
        seconds_into(options.time_s));
    add("-l,--backtrace-limit", "N", "frames of a backtrace, 1 to 256 (default 50)",
        whole_into(options.backtrace_limit, 1U, kMaxBacktrace));
    add("-m,--memory-block-max", "N", "stop at N expired blocks at a call stack\n(default: never)",
        whole_into(options.memory_block_max, std::uint64_t{0}, kMax64));
    add("-c,--call-stack-max", "N", "stop at N call stacks with expired blocks\n(default: never)",
        whole_into(options.call_stack_max, std::uint64_t{0}, kMax64));
    add("-d,--debug-info", "FILE", "debug information of the program",
        file_into(options.debug_info));
    add_each("--debug-dir", "DIR", "look for debug files in DIR before /usr/lib/debug;\nrepeatable",
             [&options](const std::string& name, const std::string& folder) {
                 options.debug_folders.push_back(parse_file(name, folder));
             });
    add_each("-p,--pid", "PID", "watch this process, as PID does; repeatable",
             [&options](const std::string&, const std::string& pid) {
                 options.pids.push_back(parse_pid(pid));
             });
    add_each("--name", "PATTERN",
             "watch the processes whose name matches, as pgrep\nfinds them; repeatable",
             [&options](const std::string& name, const std::string& pattern) {
                 options.names.push_back(parse_process_name(name, pattern));
             });
    app_.add_flag("--children", options.children, "watch the child processes that are there, too")
        ->disable_flag_override();
    add("--ns-pid", "N",
        "watch process N of the PID namespace that PID is\nin: the number inside a container",
        [&options](const std::string& name, const std::string& text) {
            options.ns_pid = parse_whole(name, text, 1, std::numeric_limits<int>::max());
        });
    add("-o,--output", "FILE", "write the report there, not to stdout", file_into(options.output));
    add("-F,--format", "FORMAT", format_help(),
        [&options](const std::string& name, const std::string& text) {
            options.format = parse_format(name, text);
        });
    choices_["--format"] = format_names();
    add("--error-exitcode", "N",
        "exit with N, 1 to 255, if there are leaks (see\n--errors-for), or errors or lost blocks "
        "are found",
        whole_into(options.error_exitcode, 1, kMaxExitCode));
    add("--errors-for", "KIND",
        "what --error-exitcode is for: suspect (default),\nleaking, expired (any block that is), "
        "or lost blocks",
        [&options, this](const std::string& name, const std::string& text) {
            options.errors_for = parse_name(name, text, kErrors);
            has_errors_for_ = true;
        });
    add_each("--at-memory", "90%|SIZE",
             "save a report when 90% of the control group's limit\n(or of the machine) is used, or "
             "RSS is 2G; repeatable",
             [&options](const std::string& name, const std::string& text) {
                 options.at_memory.push_back(parse_memory_threshold(name, text));
             });
    add("--at-pressure", "KIND[:TIME[/WINDOW]]",
        "... when tasks wait for memory that long within a\nwindow: some (default: some:150ms/2s) "
        "or full",
        [&options](const std::string& name, const std::string& text) {
            options.at_pressure = parse_pressure_threshold(name, text);
        });
    choices_["--at-pressure"] = {"some", "full"};
    add("--at-output", "FILE", "... there (%p is the PID)", file_into(options.at_output));
    add("--log", "LEVEL", "error, warning, info (default) or debug",
        name_into(options.log_level, kLevels));
    add("--interval", "TIME[,COUNT]",
        "print the worst call stacks that often, and\nleave after COUNT times",
        [&options](const std::string& name, const std::string& text) {
            const auto comma = text.find(',');
            options.interval_s = parse_duration(name, text.substr(0, comma));
            if (comma != std::string::npos) {
                options.interval_count =
                    parse_whole(name, text.substr(comma + 1), std::uint64_t{1}, kMax64);
            }
        });
    add("--top", "N", "how many call stacks --interval prints (default 10)",
        whole_into(options.top, std::uint64_t{1}, kMax64));
    add_each("--skip", "PATTERN",
             "name call stacks by the caller of functions (or\nmodules) that match; repeatable",
             [&options](const std::string&, const std::string& glob) {
                 if (glob.empty()) { // an unset variable of a script
                     throw UsageError("--skip: the pattern is empty");
                 }
                 options.skip.push_back(glob);
             });
    add_each("-x", "COMMAND",
             "run a command of the prompt before the target is\nlet go; repeatable",
             [&options](const std::string& name, const std::string& line) {
                 options.commands.push_back(parse_command(name, line));
             });
    add("--engine", "ENGINE",
        "how calls are seen: auto (default), inline (without\nstops) or int3; see memleax(1)",
        name_into(options.engine, kEngines));
    add("--unwinder", "UNWINDER",
        "who walks call stacks: memleax (default) or\nlibunwind, a slow second opinion",
        name_into(options.unwinder, kUnwinders));
    add("--color", "WHEN", "auto (default), always or never", name_into(options.color, kColors));
    add("--progress", "WHEN", "a line of progress on a terminal: auto (default)\nor never",
        name_into(options.progress, kProgress));
    add("--snapshot", "WAY",
        "for a look at its heap the process stands still while\nit is forked (fork), its memory "
        "is "
        "copied (copy), or\nwhat is shorter and does no harm (auto, default)",
        name_into(options.snapshot, kSnapshots));
    add_allocators(options);
    app_.add_flag_callback(
            "-i,--interactive", [&options] { options.interactive = Options::Interactive::always; },
            "prompt for commands, even if there is no terminal")
        ->disable_flag_override();
    app_.add_flag("--live", options.live,
                  "begin with the prompt's 'watch stats', until a key is\npressed")
        ->disable_flag_override();
    app_.add_flag_callback(
            "-n,--no-interactive",
            [&options] { options.interactive = Options::Interactive::never; },
            "no prompt, even on a terminal")
        ->disable_flag_override();
    app_.add_flag("-f,--follow-forks", options.follow_forks, "watch child processes that come, too")
        ->disable_flag_override();
    app_.add_flag("--leak-check", options.leak_check,
                  "find blocks that nothing points to: at once, or at\nthe end of the watching "
                  "(with --time, COMMAND, ...)")
        ->disable_flag_override();
    app_.add_flag("--events", options.events,
                  "print each call that maps memory, with its stack\n(see --track)")
        ->disable_flag_override();
    app_.add_flag_callback(
            "--full-names", [&options] { options.name_style = NameStyle::whole; },
            "names, template arguments and paths in full")
        ->disable_flag_override();
    app_.add_flag("-q,--quiet", options.quiet, "final report only")->disable_flag_override();
    app_.add_flag("-v,--version", version_, "print the version")->disable_flag_override();
}

/// Each may be given several times.
void Parser::add_allocators(Options& options) {
    struct Row {
        const char* name;
        const char* value;
        void (*take)(AllocatorApi&, const std::string& option, const std::string& text);
        const char* help;
    };
    static constexpr Row rows[] = {
        {"--track", "KINDS", set_tracked,
         "what to follow: heap (default), mapped memory (mmap,\nbrk, shm), page faults (faults); "
         "as in heap,mmap"},
        {"--alloc", "FUNCTION", add_alloc,
         "watch an allocator of your own, as in\npool_get:size=2 (arguments count from 1)"},
        {"--free", "FUNCTION", add_free, "what ends its blocks, as in pool_put:ptr=2"},
        {"--realloc", "FUNCTION", add_realloc, "what replaces them: NAME:ptr=ARG,size=ARG"},
        {"--resource", "PAIR", add_resource,
         "watch what a function acquires and another one\nreleases: fopen,fclose open,close:int"},
        {"--allocators", "FILE", add_allocator_file,
         "a file of such lines; or glib, apr, sqlite,\nopenssl"},
        {"--probe", "PROBE", add_probe,
         "count the calls of a probe (libc:memory_*) or of a\nfunction, by call stack and first "
         "argument"},
        {"--prefix", "PREFIX", add_allocator_prefix,
         "malloc and its kin are called PREFIXmalloc, ..."},
    };
    auto api = std::make_shared<AllocatorApi>();
    options.allocators = api;
    app_.add_flag_callback(
            "--check",
            [api, &options] {
                options.check = true;
                api->add_runtime_operators();
            },
            "tell of frees that are wrong, with the stacks of\nallocation, first and second free")
        ->disable_flag_override();
    for (const Row& row : rows) {
        add_each(row.name, row.value, row.help,
                 [api, row](const std::string& name, const std::string& text) {
                     row.take(*api, name, text);
                 });
    }
}

void Parser::parse(std::vector<std::string> last_first) {
    try {
        app_.parse(std::move(last_first));
    } catch (const CLI::ArgumentMismatch& error) {
        // "--expire: 1 required SECONDS missing" or "quiet was given a disallowed flag override"
        const std::string text = error.what();
        const std::string name = text.substr(0, text.find_first_of(": "));
        throw UsageError(text.find(':') != std::string::npos
                             ? fmt::format("{} needs a value", name)
                             : fmt::format("--{} takes no value", name));
    }
    if (const auto unknown = app_.remaining(); !unknown.empty()) {
        throw UsageError(fmt::format("unknown option '{}'", unknown[0]));
    }
}

} // namespace

std::vector<OptionDescription> describe_options() {
    Options options;
    return Parser(options).describe();
}

std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv) {
    Options options;
    Parser parser(options);

    // CLI11 takes what follows "--" for positionals, and would look for options among them.
    int own = 1;
    while (own < argc && std::strcmp(argv[own], "--") != 0) {
        ++own;
    }
    for (int i = own + 1; i < argc; ++i) {
        options.command.emplace_back(argv[i]);
    }
    const std::vector<std::string> words(argv + 1, argv + own);

    try {
        refuse_empty_values(parser.describe(), words);
        parser.parse({words.rbegin(), words.rend()}); // as CLI11 wants them
        if (parser.version()) {
            return EarlyExit{0, fmt::format("memleax {}\n", MEMLEAX_VERSION)};
        }
        take_target(parser.positionals(), own < argc, options);
        take_expiry(parser.expire_s(), options);
        refuse_binary_on_terminal(options);
        check_thresholds(options);
        check_leak_check(options);
        check_events(options);
        check_live(options);
        check_unwinder(options);
        check_errors(parser.has_errors_for(), options);
        check_errors_for_lost(options);
        options.live_lines = !options.quiet && !options.interval_s;
    } catch (const CLI::CallForHelp&) {
        return EarlyExit{0, parser.help()};
    } catch (const CLI::Error& error) {
        return usage_exit(error.what());
    } catch (const UsageError& error) {
        return usage_exit(error.what());
    }
    return options;
}

} // namespace memleax
