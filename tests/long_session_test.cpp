// SPDX-License-Identifier: GPL-3.0-or-later
// What a long session keeps.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process_support.hpp"
#include "prompt_support.hpp"
#include "sanitizer_support.hpp"
#include "share_support.hpp"

namespace memleax::testing {
namespace {

/// A line of /proc/PID/status, in KiB.
long status_of(pid_t pid, const std::string& name) {
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    for (std::string word; file >> word;) {
        if (word == name + ":") {
            long value = 0;
            file >> value;
            return value;
        }
    }
    return -1;
}

/// Of a session at the prompt in which `waves` times 5000 blocks expire.
long peak_after(int waves, bool live_lines) {
    Fixture fixture("big_live", {"5000"});
    PromptOptions options{.arguments = {"-m", "0", "-e", "0.01"}, .environment = {}, .size = {}};
    if (!live_lines) {
        options.arguments.emplace_back("-q");
    }
    PromptOnTerminal prompt(fixture.pid(), options);
    for (int wave = 1; wave <= waves; ++wave) {
        fixture.go();
    }
    if (live_lines) { // as of each power of ten
        prompt.terminal.expect(fmt::format(", {} times by now\n", waves * 5000));
    }
    prompt.run("dump 1"); // so all that came before has been done, and names are known in any case
    const long peak = status_of(prompt.terminal.pid(), "VmHWM");
    EXPECT_EQ(prompt.quit(), 0);
    return peak;
}

// The blocks themselves are known in both sessions. The lines may cost what waits to be looked at
// at a time, and not what has been.
TEST(LongSession, A100000ExpiriesCostNoMemory) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "what is freed is kept for a while";
    }
    const long without = peak_after(20, false);
    const long with = peak_after(20, true);
    ASSERT_GT(without, 0);
    // 10^5 notices or lines of 50 bytes, kept in any form, are more; 5000 notices are 360 KiB.
    EXPECT_LT(with - without, 4096) << with << " and " << without << " KiB";
}

long mappings_of(pid_t pid) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    long lines = 0;
    for (std::string line; std::getline(maps, line);) {
        ++lines;
    }
    return lines;
}

long descriptors_of(pid_t pid) {
    const std::filesystem::directory_iterator all(fmt::format("/proc/{}/fd", pid));
    return std::distance(begin(all), end(all));
}

/// What memleax has got.
struct Held {
    long mappings = 0;
    long descriptors = 0;
    long resident_kib = 0;
};

/// Waits until an answer comes at the prompt: what happened before it has been dealt with.
Held held_by(Memleax& memleax) {
    memleax.process().send("process 1");
    for (;;) {
        const auto line = memleax.process().read_line();
        if (!line || line->find("Process 1 is ") != std::string::npos) {
            EXPECT_TRUE(line) << memleax.process().state();
            break;
        }
    }
    const pid_t pid = memleax.process().pid();
    return {mappings_of(pid), descriptors_of(pid), status_of(pid, "VmRSS")};
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
        ++count;
    }
    return count;
}

/// By commands of the fixture "family", each of which has that many.
struct Children {
    const char* command;
    int times;
    long most_kib; ///< of each, where that is a half or less of what would stay of it otherwise
};

void PrintTo(const Children& children, std::ostream* out) {
    *out << children.command;
}

class LongSessionOf : public ::testing::TestWithParam<Children> {};

// Shell scripts, and servers with a process for each client, have thousands in an hour. What is
// known of each stays for the report; what watching took does not.
TEST_P(LongSessionOf, EndedChildrenTakeLittle) {
    Fixture fixture("family");
    Memleax memleax(
        {"-f", "-i", "-q", "-e", "1000", "--log", "warning", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    std::size_t children = 0;
    const auto have = [&](int times) {
        for (int i = 0; i < times; ++i) {
            const FixtureAnswer answer = fixture.ask(GetParam().command);
            EXPECT_THAT(answer.failures, ::testing::IsEmpty());
            children += answer.other.size();
        }
    };
    have(std::max(GetParam().times / 10, 1)); // so that caches are warm
    const Held before = held_by(memleax);
    const std::size_t first = children;
    have(GetParam().times);
    const auto more = static_cast<long>(children - first);
    ASSERT_GT(more, 0);
    constexpr long kSlackKib = 4096;
    const long most_kib = kSlackKib + GetParam().most_kib * more;
    // What is free is given back once a second.
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    Held after = held_by(memleax);
    while (after.resident_kib - before.resident_kib >= most_kib &&
           std::chrono::steady_clock::now() < deadline) {
        after = held_by(memleax);
    }
    // Those that the last look at the memory saw alive wait for the next look.
    EXPECT_LT(after.mappings - before.mappings, 32 + more / 20) << more << " children";
    EXPECT_LT(after.descriptors - before.descriptors, 32 + more / 20) << more << " children";
    if (!test::kIsSanitized) {
        EXPECT_LT(after.resident_kib - before.resident_kib, most_kib) << more << " children";
    }
    memleax.process().close_input();
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    // A shell may be a process besides.
    EXPECT_GE(count_of(result.output, "\n== Process "), children + 1);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, LongSessionOf,
                         ::testing::Values(Children{"server", 4, 32},
                                           Children{"system", share_of(150), 128}),
                         [](const auto& instance) { return instance.param.command; });

} // namespace
} // namespace memleax::testing
