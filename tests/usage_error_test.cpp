// SPDX-License-Identifier: GPL-3.0-or-later
// Every wrong use of the command line gives one line, which says what is wrong, and status 2.
#include "memleax/cli/options.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../src/cli/option_description.hpp"
#include "child_process_support.hpp"
#include "elf_support.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<const char*>;

std::variant<Options, EarlyExit> parse(Words words) {
    words.insert(words.begin(), "memleax");
    words.push_back(nullptr); // as main gets it
    return parse_options(static_cast<int>(words.size() - 1), words.data());
}

/// The message of a wrong use, without its frame.
std::string refused(const Words& words) {
    auto parsed = parse(words);
    const auto* exit = std::get_if<EarlyExit>(&parsed);
    if (exit == nullptr) {
        return "(accepted)";
    }
    constexpr std::string_view kStart = "memleax: ";
    constexpr std::string_view kEnd = " (try 'memleax --help')\n";
    EXPECT_EQ(exit->status, 2);
    EXPECT_THAT(exit->text, StartsWith(kStart));
    EXPECT_THAT(exit->text, EndsWith(kEnd));
    EXPECT_EQ(std::count(exit->text.begin(), exit->text.end(), '\n'), 1);
    return exit->text.substr(kStart.size(), exit->text.size() - kStart.size() - kEnd.size());
}

TEST(UsageErrorTest, NsPid) {
    EXPECT_EQ(refused({"--ns-pid", "x", "1"}),
              "--ns-pid: 'x' is not a whole number from 1 to 2147483647");
    EXPECT_EQ(refused({"--ns-pid", "0", "1"}),
              "--ns-pid: '0' is not a whole number from 1 to 2147483647");
    EXPECT_EQ(refused({"--ns-pid", "1"}), "no PID and no COMMAND is given");
    EXPECT_EQ(refused({"--ns-pid", "1", "--", "ls"}), "--ns-pid and a COMMAND: give one of them");
    EXPECT_EQ(refused({"--debug-dir", "", "1"}), "--debug-dir: the file's name is empty");
}

TEST(UsageErrorTest, WrongTarget) {
    EXPECT_EQ(refused({}), "no PID and no COMMAND is given");
    EXPECT_EQ(refused({"-q"}), "no PID and no COMMAND is given");
    EXPECT_EQ(refused({"--"}), "there is no COMMAND after '--'");
    EXPECT_EQ(refused({"1", "--"}), "there is no COMMAND after '--'");
    EXPECT_EQ(refused({"1", "--", "ls"}), "'1' and a COMMAND: give one of them");
    EXPECT_EQ(refused({"1", "x"}), "'x' is not a process id (a number above 0)");
    EXPECT_EQ(refused({"-p", "0"}), "'0' is not a process id (a number above 0)");
    EXPECT_EQ(refused({"--name", ""}), "--name: the name is empty");
    EXPECT_THAT(refused({"--name", "a("}), StartsWith("--name: 'a(' is no regular expression: "));
    EXPECT_EQ(refused({"-p", "1", "--", "x"}), "--pid and a COMMAND: give one of them");
    EXPECT_EQ(refused({"--name", "a", "--", "x"}), "--name and a COMMAND: give one of them");
    EXPECT_EQ(refused({"--children", "--", "x"}), "--children and a COMMAND: give one of them");
    EXPECT_EQ(refused({"--ns-pid", "3", "1", "2"}),
              "--ns-pid: goes with one PID, that of a process of the namespace");
    EXPECT_EQ(refused({"--ns-pid", "3", "--name", "a"}),
              "--ns-pid: goes with one PID, that of a process of the namespace");
    EXPECT_EQ(refused({"--leak-check", "1", "2"}),
              "--leak-check: looks at one process: give one PID, or --time as well");
    EXPECT_EQ(refused({"99999999999"}), "'99999999999' is too large for a process id");
    for (const char* word :
         {"redis", "", "0", "-5", "+5", "5x", "5.0", " 5", "0x10", "1 2", "%s{}"}) {
        EXPECT_EQ(refused({word}),
                  fmt::format("'{}' is not a process id (a number above 0)", word));
    }
}

TEST(UsageErrorTest, AnotherUnwinderNeedsStops) {
    EXPECT_EQ(refused({"--unwinder", "libunwind", "--engine", "inline", "1"}),
              "--unwinder: libunwind walks the stacks of stopped threads only, and --engine inline "
              "does not stop them: use --engine int3");
    EXPECT_EQ(refused({"--engine", "int3", "--unwinder", "libunwind", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--engine", "inline", "--unwinder", "memleax", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--unwinder", "libdw", "1"}),
              "--unwinder: 'libdw' is none of libunwind, memleax");
    EXPECT_EQ(refused({"--unwinder"}), "--unwinder needs a value");
}

TEST(UsageErrorTest, LeakCheckByItselfIsOneLook) {
    EXPECT_EQ(refused({"--leak-check", "-F", "folded", "1"}),
              "--leak-check: goes with --format text, json and html only, unless --time or another "
              "option says that the process is to be watched");
    EXPECT_EQ(refused({"--leak-check", "-F", "json", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--leak-check", "-t", "5", "-F", "folded", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--leak-check", "--at-memory", "1G", "-F", "folded", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--error-exitcode", "9", "--errors-for", "lost", "1"}),
              "--errors-for: lost goes with --leak-check only");
}

TEST(UsageErrorTest, WrongThresholds) {
    for (const char* value : {"", "0", "0%", "101%", "-5%", "nan%", "nan", "inf", "1X", "90 %", "G",
                              "5Gi", "5GiBs", "1e30"}) {
        EXPECT_EQ(refused({"--at-memory", value, "1"}),
                  fmt::format("--at-memory: '{}' is neither a percentage above 0 (as 90%) nor a "
                              "size (as 800M, 1.5G)",
                              value));
    }
    EXPECT_EQ(refused({"--at-pressure", "most", "1"}),
              "--at-pressure: 'most' is none of some, full, as in some:150ms/2s");
    EXPECT_EQ(refused({"--at-pressure", "some:", "1"}),
              "--at-pressure: '' is not a time above 0 (as 30, 30s, 5m, 2h)");
    EXPECT_EQ(refused({"--at-pressure", "some:1ms/0.4", "1"}),
              "--at-pressure: a window of 0.4 is none from 500ms to 10s, as the kernel wants it");
    EXPECT_EQ(refused({"--at-pressure", "full:3s", "1"}),
              "--at-pressure: nobody waits 3s within a window of 2 s");
    EXPECT_EQ(refused({"--at-output", "x", "1"}),
              "--at-output: goes with --at-memory or --at-pressure only");
}

TEST(UsageErrorTest, UnknownOptions) {
    EXPECT_EQ(refused({"--bogus", "1"}), "unknown option '--bogus'");
    EXPECT_EQ(refused({"1", "-Z"}), "unknown option '-Z'");
    EXPECT_EQ(refused({"-qZ", "1"}), "unknown option '-Z'");
    EXPECT_EQ(refused({"--exp", "1", "1"}), "unknown option '--exp'");
}

TEST(UsageErrorTest, MissingAndUnwantedValues) {
    for (const char* name :
         {"--expire", "--time", "--backtrace-limit", "--memory-block-max", "--call-stack-max",
          "--debug-info", "--output", "--format", "--error-exitcode", "--log"}) {
        EXPECT_EQ(refused({"1", name}), fmt::format("{} needs a value", name));
        EXPECT_EQ(refused({name, "--", "ls"}), fmt::format("{} needs a value", name));
    }
    EXPECT_EQ(refused({"1", "-e"}), "--expire needs a value");
    EXPECT_EQ(refused({"1", "--quiet=false"}), "--quiet takes no value");
    EXPECT_EQ(refused({"1", "--version=1"}), "--version takes no value");
    EXPECT_EQ(refused({"1", "--full-names=yes"}), "--full-names takes no value");
    EXPECT_EQ(refused({"1", "--skip"}), "--skip needs a value");
    EXPECT_EQ(refused({"1", "--skip="}), "--skip needs a value");
    EXPECT_EQ(refused({"1", "--skip", ""}), "--skip: the pattern is empty");
}

// As getopt_long(3) has it: a script's unset variable, and not the next word.
TEST(UsageErrorTest, NothingBehindAnEqualsSign) {
    for (const OptionDescription& option : describe_options()) {
        const std::string& name = option.names.back();
        if (option.value.empty() || !name.starts_with("--")) {
            continue;
        }
        const std::string word = name + "=";
        EXPECT_EQ(refused({word.c_str(), "1", "2"}), name + " needs a value");
        EXPECT_EQ(refused({"1", "-q", word.c_str()}), name + " needs a value");
    }
    EXPECT_EQ(refused({"--bogus=", "1"}), "unknown option '--bogus='");
    // Values of others, and COMMAND's arguments.
    EXPECT_EQ(refused({"--skip", "--output=", "1"}), "(accepted)");
    EXPECT_EQ(refused({"-o", "--output=", "1"}), "(accepted)");
    EXPECT_EQ(refused({"-qo", "--output=", "1"}), "(accepted)");
    EXPECT_EQ(refused({"-ofile", "--output=", "1"}), "--output needs a value");
    EXPECT_EQ(refused({"--skip==", "1"}), "(accepted)");
    EXPECT_EQ(refused({"--", "ls", "--output=", "1"}), "(accepted)");
}

TEST(UsageErrorTest, WhatIsNoProbe) {
    for (const char* probe : {"libc:", ":new", "mem*", "a b"}) {
        EXPECT_EQ(refused({"--probe", probe, "1"}),
                  fmt::format("--probe: '{}' is no probe: PROVIDER:NAME, as in 'libc:memory_*', or "
                              "the name of a function",
                              probe));
    }
}

TEST(UsageErrorTest, WrongAllocators) {
    const std::string alloc = "NAME:size=ARG[,count=ARG][,out=ARG]";
    const std::string resource = "ACQUIRE,RELEASE[:int][,out=ARG][,handle=ARG]";
    EXPECT_EQ(refused({"--alloc", "get", "1"}), "--alloc get: its arguments are missing: " + alloc);
    EXPECT_EQ(refused({"--alloc", ":size=1", "1"}),
              "--alloc :size=1: '' is not the name of a function: " + alloc);
    EXPECT_EQ(refused({"--alloc", "get:count=1", "1"}),
              "--alloc get:count=1: size= is missing: " + alloc);
    EXPECT_EQ(refused({"--alloc", "get:size=1,size=2", "1"}),
              "--alloc get:size=1,size=2: size is there twice");
    EXPECT_EQ(refused({"--alloc", "get:size=1,ptr=2", "1"}),
              "--alloc get:size=1,ptr=2: 'ptr=2' is not understood: " + alloc);
    EXPECT_EQ(refused({"--alloc", "get:size", "1"}),
              "--alloc get:size: 'size' is not understood: " + alloc);
    for (const char* number : {"0", "7", "-1", "x", ""}) {
        const std::string text = fmt::format("get:size={}", number);
        EXPECT_EQ(refused({"--alloc", text.c_str(), "1"}),
                  fmt::format("--alloc {}: size: '{}' is not the number of an argument, 1 (the "
                              "first) to 6",
                              text, number));
    }
    EXPECT_EQ(refused({"--free", "put:size=1", "1"}),
              "--free put:size=1: 'size=1' is not understood: NAME:ptr=ARG[,next=ARG]");
    EXPECT_EQ(refused({"--realloc", "grow:ptr=1", "1"}),
              "--realloc grow:ptr=1: size= is missing: NAME:ptr=ARG,size=ARG[,count=ARG]");
    for (const char* text : {"fopen", "a,b,c", "same,same", ""}) {
        EXPECT_EQ(refused({"--resource", text, "1"}),
                  fmt::format("--resource {}: two functions are wanted: {}", text, resource));
    }
    EXPECT_EQ(refused({"--resource", "open,close:fd", "1"}),
              "--resource open,close:fd: 'fd' is not understood: " + resource);
    EXPECT_EQ(refused({"--prefix", "", "1"}),
              "--prefix: '' is not the name of a function: the prefix of PREFIXmalloc");
}

TEST(UsageErrorTest, WrongAllocatorFiles) {
    EXPECT_EQ(refused({"--allocators", "nonesuch", "1"}),
              "--allocators: there is no 'nonesuch' among apr, glib, openssl, sqlite (a file of "
              "your own has a '/' in its name: ./nonesuch)");
    EXPECT_EQ(refused({"--allocators", "/no/such", "1"}), "--allocators: /no/such cannot be read");
    EXPECT_EQ(refused({"--allocators", "/tmp/", "1"}), "--allocators: /tmp/ cannot be read");
    const test::TemporaryFolder folder;
    const std::string path = folder.file("mine");
    std::ofstream(path) << "free put:ptr=1\n\n alloc get # size?\n";
    EXPECT_EQ(refused({"--allocators", path.c_str(), "1"}),
              path + ":3 get: its arguments are missing: NAME:size=ARG[,count=ARG][,out=ARG]");
    std::ofstream(path) << "malloc get:size=1\n";
    EXPECT_EQ(refused({"--allocators", path.c_str(), "1"}),
              path + ":1: 'malloc' is none of alloc, free, prefix, realloc, resource");
}

TEST(UsageErrorTest, WrongSeconds) {
    for (const char* value : {"0", "0.0", "-1", "nan", "inf", "-inf", "1e400", "0x10", "5 s",
                              "5sec", "5M", "s", "-1m", "1h30m", "1,5", "", "x", " 1"}) {
        const std::string says =
            fmt::format(": '{}' is not a time above 0 (as 30, 30s, 5m, 2h)", value);
        EXPECT_EQ(refused({"-e", value, "1"}), "--expire" + says);
        EXPECT_EQ(refused({"--time", value, "1"}), "--time" + says);
    }
    EXPECT_EQ(refused({"-t", "2e9", "1"}), "--time: 2e9 is too long");
}

TEST(UsageErrorTest, AnAgeThatNoBlockCanReach) {
    for (const char* age : {"5", "10"}) {
        EXPECT_EQ(refused({"-e", age, "-t", "5", "1"}),
                  fmt::format("--expire: no block gets {} seconds old in the 5 of --time: give "
                              "less, or more time",
                              age));
    }
}

TEST(UsageErrorTest, WrongNumbers) {
    for (const char* value : {"0", "257", "-1", "5.5", "x", ""}) {
        EXPECT_EQ(
            refused({"-l", value, "1"}),
            fmt::format("--backtrace-limit: '{}' is not a whole number from 1 to 256", value));
    }
    for (const char* value : {"0", "256", "-1", "99999999999999999999"}) {
        EXPECT_EQ(refused({"--error-exitcode", value, "1"}),
                  fmt::format("--error-exitcode: '{}' is not a whole number from 1 to 255", value));
    }
    for (const char* value : {"-1", "18446744073709551616", "5x", "1_000", "1e3", "+5", ""}) {
        const std::string says =
            fmt::format(": '{}' is not a whole number from 0 to 18446744073709551615", value);
        EXPECT_EQ(refused({"-m", value, "1"}), "--memory-block-max" + says);
        EXPECT_EQ(refused({"-c", value, "1"}), "--call-stack-max" + says);
    }
}

TEST(UsageErrorTest, WrongNamesAndFiles) {
    std::set<std::string_view> names;
    for (const ReportFormat& format : report_formats()) {
        if (format.write != nullptr) {
            names.insert(format.name);
            continue;
        }
        EXPECT_EQ(
            refused({"-F", format.name.data(), "1"}),
            fmt::format("--format: this build is without {}: {}", format.name, format.why_without));
    }
    for (const char* wrong : {"xml", "JSON"}) {
        EXPECT_EQ(refused({"-F", wrong, "1"}),
                  fmt::format("--format: '{}' is none of {}", wrong, fmt::join(names, ", ")));
    }
    EXPECT_EQ(refused({"--log", "loud", "1"}),
              "--log: 'loud' is none of debug, error, info, warning");
    EXPECT_EQ(refused({"--error-exitcode", "9", "--errors-for", "leaks", "1"}),
              "--errors-for: 'leaks' is none of expired, leaking, lost, suspect");
    EXPECT_EQ(refused({"--errors-for", "leaking", "1"}),
              "--errors-for: goes with --error-exitcode only");
    EXPECT_EQ(refused({"-o", "", "1"}), "--output: the file's name is empty");
    EXPECT_EQ(refused({"-d", "", "1"}), "--debug-info: the file's name is empty");
}

/// Puts a terminal in the place of stdout for a while.
class StdoutIsTerminal {
  public:
    StdoutIsTerminal() {
        std::fflush(stdout);
        EXPECT_EQ(grantpt(master_.get()), 0);
        EXPECT_EQ(unlockpt(master_.get()), 0);
        const testing::ScopedFd terminal(open(ptsname(master_.get()), O_WRONLY | O_NOCTTY));
        EXPECT_EQ(dup2(terminal.get(), STDOUT_FILENO), STDOUT_FILENO);
    }
    StdoutIsTerminal(const StdoutIsTerminal&) = delete;
    StdoutIsTerminal& operator=(const StdoutIsTerminal&) = delete;
    ~StdoutIsTerminal() { dup2(before_.get(), STDOUT_FILENO); }

  private:
    testing::ScopedFd before_{dup(STDOUT_FILENO)};
    testing::ScopedFd master_{posix_openpt(O_RDWR | O_NOCTTY)};
};

TEST(UsageErrorTest, BinaryReportOnATerminal) {
    const auto refused_on_terminal = [](const Words& words) {
        const StdoutIsTerminal terminal;
        return refused(words);
    };
    EXPECT_EQ(refused_on_terminal({"-F", "pprof", "1"}),
              "--format: pprof is not for a terminal: give a file with -o");
    EXPECT_EQ(refused_on_terminal({"-F", "pprof", "-o", "file", "1"}), "(accepted)");
    EXPECT_EQ(refused_on_terminal({"-F", "json", "1"}), "(accepted)");
}

TEST(UsageErrorTest, MessageStaysOneLine) {
    EXPECT_EQ(refused({"1\n2\x1b[31m"}),
              "'1\\x0a2\\x1b[31m' is not a process id (a number above 0)");
}

} // namespace
} // namespace memleax
