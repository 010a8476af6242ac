// SPDX-License-Identifier: GPL-3.0-or-later
#include "process_support.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "build_paths.hpp"

namespace memleax::testing {

void PrintTo(const Leak& leak, std::ostream* out) {
    *out << leak.blocks << " blocks, " << leak.bytes << " bytes";
}

std::string row_name(const std::string& fixture, const std::vector<std::string>& arguments,
                     const std::string& preload) {
    std::string result = fixture;
    for (const std::string& argument : arguments) {
        result += "_" + argument;
    }
    result += preload.empty() ? "" : "_under_" + preload.substr(preload.rfind('/') + 1);
    std::replace_if(
        result.begin(), result.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return result;
}

std::string fixture_path(const std::string& name) {
    return std::string(MEMLEAX_FIXTURES) + "/" + name;
}

bool is_built(const std::string& fixture) {
    return access(fixture_path(fixture).c_str(), X_OK) == 0;
}

namespace {

void wait_until_ready(ChildProcess& fixture, const std::string& name) {
    const auto line = fixture.read_line();
    if (line != "ready") {
        throw std::runtime_error(fmt::format("{}: '{}' came for 'ready'\n{}", name,
                                             line.value_or("(the end)"), fixture.errors()));
    }
}

} // namespace

FixtureAnswer read_answer(ChildProcess& process) {
    FixtureAnswer answer;
    while (auto line = process.read_line()) {
        if (*line == "done") {
            return answer;
        }
        std::istringstream words(*line);
        std::string kind;
        std::string name;
        words >> kind >> name;
        if (kind == "truth") {
            Leak& leak = answer.truth[name];
            words >> leak.blocks >> leak.bytes;
        } else if (kind == "count") {
            words >> answer.counts[name];
        } else if (kind == "stack") {
            answer.stacks.push_back(line->substr(kind.size() + 1));
        } else if (kind == "fail") {
            answer.failures.push_back(*line);
        } else {
            answer.other.push_back(*line);
        }
    }
    process.wait_for_exit();
    throw std::runtime_error("the fixture ended before it was done\n" + process.state());
}

CommandLine unprivileged(CommandLine command) {
    if (geteuid() == 0) {
        static const std::vector<std::string> kNobody{"/usr/bin/setpriv", "--reuid=65534",
                                                      "--regid=65534", "--clear-groups"};
        command.words.insert(command.words.begin(), kNobody.begin(), kNobody.end());
    }
    return command;
}

Fixture::Fixture(const std::string& name, const std::vector<std::string>& arguments,
                 const Environment& environment)
    : Fixture(
          [&] {
              CommandLine command{{fixture_path(name)}};
              command.words.insert(command.words.end(), arguments.begin(), arguments.end());
              return command;
          }(),
          environment) {}

Fixture::Fixture(const CommandLine& command, const Environment& environment)
    : process_(command.words, environment) {
    wait_until_ready(process_, fmt::format("{}", fmt::join(command.words, " ")));
}

FixtureAnswer Fixture::ask(const std::string& command) {
    process_.send(command);
    return read_answer(process_);
}

int Fixture::quit() {
    process_.send("quit");
    return process_.wait_for_end();
}

std::string engine_under_test() {
    const char* engine = std::getenv("MEMLEAX_TEST_ENGINE");
    return engine != nullptr ? engine : "inline";
}

std::vector<std::string> memleax_command() {
    std::vector<std::string> command{MEMLEAX_PROGRAM};
    if (const char* engine = std::getenv("MEMLEAX_TEST_ENGINE")) {
        command.insert(command.end(), {"--engine", engine});
    }
    return command;
}

Memleax::Memleax(const std::vector<std::string>& arguments, const Environment& environment)
    : process_(
          [&] {
              std::vector<std::string> command = memleax_command();
              command.insert(command.end(), arguments.begin(), arguments.end());
              return command;
          }(),
          environment) {}

std::string Memleax::wait_until_watching() {
    if (auto line = process_.find_error_line("watching")) {
        return *line;
    }
    throw std::runtime_error("memleax ended before it watched:\n" + process_.errors());
}

// In whatever order, and the last of it comes after the others.
void Memleax::wait_until_patched() {
    bool watches = false;
    bool is_patched = false;
    while (!watches || !is_patched) {
        const auto line = process_.find_error_line("watch");
        if (!line) {
            throw std::runtime_error("memleax ended before all was patched\n" + process_.state());
        }
        watches = watches || line->find("engine inline)") != std::string::npos;
        is_patched = is_patched || (line->find("watched without stops") != std::string::npos &&
                                    line->find("(at 0 places)") == std::string::npos);
    }
}

void Memleax::interrupt() {
    process_.signal(SIGINT);
}

FixtureAnswer Memleax::let_fixture_go() {
    wait_until_ready(process_, "the command");
    process_.send("go");
    return read_answer(process_);
}

Memleax::Result Memleax::finish() {
    const int status = process_.wait_for_end();
    return {status, process_.output(), process_.errors()};
}

Memleax::Result Memleax::interrupt_and_finish() {
    interrupt();
    return finish();
}

Memleax::Result Memleax::quit_fixture_and_finish() {
    process_.send("quit");
    return finish();
}

nlohmann::json Memleax::Result::json() const {
    return nlohmann::json::parse(output);
}

} // namespace memleax::testing
