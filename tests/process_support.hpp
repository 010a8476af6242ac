// SPDX-License-Identifier: GPL-3.0-or-later
/// Fixtures, and the memleax program, as processes that tests talk to (child_process_support.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "child_process_support.hpp"

namespace memleax::testing {

struct Leak {
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
    bool operator==(const Leak&) const = default;
};
void PrintTo(const Leak& leak, std::ostream* out);
/// By the name of the function that allocated, without parameters.
using Leaks = std::map<std::string, Leak>;

/// What a fixture answered to a command (fixtures/fixture.h).
struct FixtureAnswer {
    Leaks truth;
    std::vector<std::string> stacks; ///< expressions for the program's own functions, see there
    std::map<std::string, std::int64_t> counts;
    std::vector<std::string> failures;
    std::vector<std::string> other; ///< lines of no known kind
};

/// What a test's row is called: the fixture, its arguments, and what is preloaded, if that is not
/// empty. Letters, digits and "_" only, as GoogleTest wants it.
std::string row_name(const std::string& fixture, const std::vector<std::string>& arguments,
                     const std::string& preload);

/// The path of a program in fixtures/.
std::string fixture_path(const std::string& name);
/// Some need a library or a compiler that is not everywhere.
bool is_built(const std::string& fixture);

/// Reads the lines up to "done".
FixtureAnswer read_answer(ChildProcess& process);

/// A program with its arguments, to be found in PATH.
struct CommandLine {
    std::vector<std::string> words;
};

/// `command` by user 65534 ("nobody") if we are root; else it is unprivileged as it is.
CommandLine unprivileged(CommandLine command);

/// A program of fixtures/, started, and "ready".
class Fixture {
  public:
    explicit Fixture(const std::string& name, const std::vector<std::string>& arguments = {},
                     const Environment& environment = {});
    /// What becomes one by exec.
    explicit Fixture(const CommandLine& command, const Environment& environment = {});

    pid_t pid() const { return process_.pid(); }
    ChildProcess& process() { return process_; }
    FixtureAnswer ask(const std::string& command);
    FixtureAnswer go() { return ask("go"); }
    /// Quits; the wait status, 0 for a fixture that ended well.
    int quit();

  private:
    ChildProcess process_;
};

/// The memleax program, and the engine that MEMLEAX_TEST_ENGINE names: all of the live tests can be
/// run with each.
std::vector<std::string> memleax_command();
/// "int3" or "inline": what it uses wherever it can.
std::string engine_under_test();

/// A run of the memleax program.
class Memleax {
  public:
    explicit Memleax(const std::vector<std::string>& arguments,
                     const Environment& environment = {});
    /// What becomes one by exec.
    explicit Memleax(const CommandLine& command) : process_(command.words) {}

    ChildProcess& process() { return process_; }
    /// The one line that says that every breakpoint is in place. Throws, with all of stderr, if
    /// memleax ends before it comes.
    std::string wait_until_watching();
    /// With the inline engine and --log debug, instead: all functions have their jumps,
    /// sigaction(3) as well. No stops any more but those that a test expects.
    void wait_until_patched();
    void interrupt();
    /// Of a fixture that memleax has started, on its own stdin and stdout.
    FixtureAnswer let_fixture_go();

    struct Result {
        int status = 0; ///< wait status
        std::string output;
        std::string errors;
        nlohmann::json json() const; ///< of all the output; throws if that is not one document
    };
    Result finish();
    Result interrupt_and_finish();
    /// By the end of the fixture that memleax has started.
    Result quit_fixture_and_finish();

  private:
    ChildProcess process_;
};

} // namespace memleax::testing
