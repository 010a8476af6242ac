// SPDX-License-Identifier: GPL-3.0-or-later
// What a long session at the prompt keeps.
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process_support.hpp"
#include "prompt_support.hpp"
#include "sanitizer_support.hpp"

namespace memleax::testing {
namespace {

/// VmHWM, in KiB.
long peak_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    for (std::string word; file >> word;) {
        if (word == "VmHWM:") {
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
    const long peak = peak_of(prompt.terminal.pid());
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

} // namespace
} // namespace memleax::testing
