// SPDX-License-Identifier: GPL-3.0-or-later
// A bug in one command, or in what Tab offers, is said to be one; the session goes on.
#include "../src/cli/command.hpp"
#include "../src/cli/line_editor.hpp"

#include <cstdio>
#include <stdexcept>

#include <gtest/gtest.h>
#include <readline/readline.h>
#include <unistd.h>

namespace memleax {
namespace {

TEST(CommandProblem, IsSaidInASentence) {
    EXPECT_EQ(problem_of([] {}), "");
    EXPECT_EQ(problem_of([] { throw CommandError("there is no mark"); }), "there is no mark");
    EXPECT_EQ(problem_of([] { throw std::out_of_range("vector"); }), "internal error: vector");
}

TEST(CommandProblem, OfTabOffersNothing) {
    LineEditor editor(STDOUT_FILENO, "", [](const auto&, const auto&) -> std::vector<std::string> {
        throw std::runtime_error("no words");
    });
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(rl_attempted_completion_function("sta", 0, 3), nullptr);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "memleax: error: internal error: no words\n");
}

} // namespace
} // namespace memleax
