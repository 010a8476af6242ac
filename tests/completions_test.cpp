// SPDX-License-Identifier: GPL-3.0-or-later
// The completions offer what the command line takes, no more and no less.
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../src/cli/command.hpp"
#include "../src/cli/option_description.hpp"
#include "child_process_support.hpp"
#include "memleax/cli/options.hpp"
#include "program_support.hpp"

namespace memleax {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAreArray;
using Words = std::vector<std::string>;

bool is_accepted(Words words) {
    words.insert(words.begin(), "memleax");
    words.emplace_back("1");
    std::vector<const char*> argv;
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    argv.push_back(nullptr);
    const auto parsed = parse_options(static_cast<int>(words.size()), argv.data());
    return std::holds_alternative<Options>(parsed);
}

Words option_names() {
    Words names;
    for (const OptionDescription& option : describe_options()) {
        names.insert(names.end(), option.names.begin(), option.names.end());
    }
    return names;
}

Words lines_of(const std::string& text) {
    Words lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line.substr(0, line.find('\t'))); // fish has the help behind a tab
    }
    return lines;
}

/// What a shell prints that runs this script, with the completions' file as its first argument.
Words printed_by(const Words& shell, const std::string& script, const std::string& file,
                 const Words& more = {}) {
    Words command = shell;
    command.push_back(script);
    command.insert(command.end(), {"shell", std::string(MEMLEAX_COMPLETIONS) + file});
    command.insert(command.end(), more.begin(), more.end());
    testing::ChildProcess child(command);
    EXPECT_EQ(child.wait_for_end(), 0) << child.state();
    EXPECT_EQ(child.errors(), "");
    return lines_of(child.output());
}

/// What bash offers for the last of these words.
Words bash_offers(const Words& words) {
    return printed_by({"bash", "--norc", "-c"},
                      R"(. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _memleax
                         printf '%s\n' "${COMPREPLY[@]}")",
                      "share/bash-completion/completions/memleax", words);
}

Words fish_offers(const std::string& line) {
    // Its argv begins with what the other shells have for $0.
    return printed_by({"fish", "--no-config", "-c"}, "source $argv[2]; complete -C $argv[3]",
                      "share/fish/vendor_completions.d/memleax.fish", {line});
}

TEST(CompletionsTest, DescriptionHasTheOptionsOfHelp) {
    const char* argv[] = {"memleax", "--help", nullptr};
    const auto parsed = parse_options(2, argv);
    std::set<std::string> in_help;
    for (const std::string& line : lines_of(std::get<EarlyExit>(parsed).text)) {
        // "  -F,--format FORMAT         form of the report:"
        const auto names = line.substr(0, line.find(' ', 2));
        if (line.starts_with("  -")) {
            std::istringstream stream(names.substr(2));
            for (std::string name; std::getline(stream, name, ',');) {
                in_help.insert(name);
            }
        }
    }
    EXPECT_THAT(option_names(), UnorderedElementsAreArray(in_help));
}

TEST(CompletionsTest, ChoicesAreWhatIsAccepted) {
    int with_choices = 0;
    for (const OptionDescription& option : describe_options()) {
        const std::string& name = option.names.back();
        for (const std::string& choice : option.choices) {
            const bool is_binary = choice == "pprof"; // not for a terminal
            Words words{name, choice, "-o", is_binary ? "file" : "-"};
            if (name == "--snapshot") { // how that is done
                words.emplace_back("--leak-check");
            }
            EXPECT_TRUE(is_accepted(words)) << name << " " << choice;
        }
        if (!option.choices.empty()) {
            ++with_choices;
            EXPECT_FALSE(is_accepted({name, option.choices[0] + "x"})) << name;
        }
    }
    EXPECT_GE(with_choices, 5);
}

TEST(CompletionsTest, OnlyFlagsGoWithoutAValue) {
    // Not watching; what wants something else as well; those that take the 1 instead of a PID.
    const std::set<std::string> ends{"-h", "-v", "--events", "--live", "-p", "--name"};
    for (const OptionDescription& option : describe_options()) {
        if (!ends.contains(option.names.front())) {
            EXPECT_EQ(is_accepted({option.names.front()}), option.value.empty())
                << option.names.front();
        }
    }
}

TEST(CompletionsTest, Bash) {
    Words all = option_names();
    all.emplace_back("--");
    EXPECT_THAT(bash_offers({"memleax", "-"}), UnorderedElementsAreArray(all));
    EXPECT_THAT(bash_offers({"memleax", "--engine", ""}), ElementsAre("auto", "inline", "int3"));
    EXPECT_THAT(bash_offers({"memleax", "--engine", "=", "in"}), ElementsAre("inline", "int3"));
    EXPECT_THAT(bash_offers({"memleax", "-x", "stat"}), ElementsAre("stats", "status"));
    EXPECT_THAT(bash_offers({"memleax", "--allocators", "sql"}), ElementsAre("sqlite"));
    EXPECT_THAT(bash_offers({"memleax", "-d", "/etc/host"}), Contains("/etc/hostname"));
    EXPECT_THAT(bash_offers({"memleax", "--debug-dir", "/et"}), ElementsAre("/etc"));
    EXPECT_THAT(bash_offers({"memleax", "-e", ""}), ElementsAre(""));
    const std::string us = fmt::format("{}", getpid());
    EXPECT_THAT(bash_offers({"memleax", "-q", us}), Contains(us));
    EXPECT_THAT(bash_offers({"memleax", "1", us}), Contains(us));
    EXPECT_THAT(bash_offers({"memleax", "-p", us}), Contains(us));
    EXPECT_THAT(bash_offers({"memleax", "--name", "complet"}), Contains("completions_tes"));
    EXPECT_THAT(bash_offers({"memleax", "-q", "--", "bas"}), Contains("bash"));
}

TEST(CompletionsTest, Fish) {
    if (!testing::has_program("fish")) {
        GTEST_SKIP() << "fish is not installed";
    }
    EXPECT_THAT(fish_offers("memleax -"), IsSupersetOf(option_names()));
    EXPECT_THAT(fish_offers("memleax --engine "),
                UnorderedElementsAreArray({"auto", "inline", "int3"}));
    EXPECT_THAT(fish_offers("memleax --allocators sql"), Contains("sqlite"));
    EXPECT_THAT(fish_offers("memleax -x stat"), UnorderedElementsAreArray({"stats", "status"}));
    EXPECT_THAT(fish_offers("memleax "), Contains(fmt::format("{}", getpid())));
    EXPECT_THAT(fish_offers("memleax -p "), Contains(fmt::format("{}", getpid())));
    EXPECT_THAT(fish_offers("memleax --name complet"), Contains("completions_tes"));
    EXPECT_THAT(fish_offers("memleax -q -- bas"), Contains("bash"));
}

TEST(CompletionsTest, Zsh) {
    if (!testing::has_program("zsh")) {
        GTEST_SKIP() << "zsh is not installed";
    }
    // What zsh's own _arguments would get, one line each: (-F --format)-F[...]:FORMAT:(json ...)
    const Words specs = printed_by({"zsh", "-f", "-c"},
                                   R"(_arguments() { print -rl -- "$@" }
                                      words=(memleax -); CURRENT=2; . "$1")",
                                   "_memleax");
    for (const OptionDescription& option : describe_options()) {
        for (const std::string& name : option.names) {
            EXPECT_THAT(specs,
                        Contains(::testing::ContainsRegex("^(\\*|\\([^)]*\\))" + name + "\\[")));
        }
    }
    EXPECT_THAT(specs, Contains(::testing::EndsWith(":ENGINE:(auto inline int3)")));
    EXPECT_THAT(specs, Contains(::testing::EndsWith(":PID:_pids")));
    EXPECT_THAT(specs, Contains("*:PID:_pids"));
}

} // namespace
} // namespace memleax
