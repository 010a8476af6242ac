// SPDX-License-Identifier: GPL-3.0-or-later
// A bug in one command, or in what Tab offers, is said to be one; the session goes on.
#include "../src/cli/command.hpp"
#include "../src/cli/line_editor.hpp"

#include <cerrno>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

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

TEST(CommandProblem, OfWhatIsLackingIsNoBug) {
    EXPECT_EQ(problem_of([] { throw std::bad_array_new_length(); }),
              "not enough memory for memleax itself; look at its limits (ulimit -v, ulimit -d)");
    EXPECT_EQ(problem_of([] { throw std::system_error(EAGAIN, std::generic_category()); }),
              "cannot start a thread: Resource temporarily unavailable; look at the limits of "
              "processes (ulimit -u, the control group's pids.max) and of memory (ulimit -v)");
    EXPECT_EQ(problem_of([] { throw std::system_error(EDEADLK, std::generic_category()); }),
              "internal error: Resource deadlock avoided");
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
