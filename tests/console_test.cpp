// SPDX-License-Identifier: GPL-3.0-or-later
// How large the prompt's terminal is.
#include "../src/cli/console.hpp"

#include <cstdlib>

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include "child_process_support.hpp"

namespace memleax {
namespace {

class ConsoleTest : public ::testing::Test {
  protected:
    void SetUp() override {
        unsetenv("COLUMNS");
        unsetenv("LINES");
    }
    void TearDown() override { SetUp(); }
    Console terminal(unsigned short rows, unsigned short columns) {
        int master = -1;
        int slave = -1;
        winsize size{rows, columns, 0, 0};
        EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
        master_ = testing::ScopedFd(master);
        slave_ = testing::ScopedFd(slave);
        return Console(slave, Options::Color::never);
    }

  private:
    testing::ScopedFd master_;
    testing::ScopedFd slave_;
};

TEST_F(ConsoleTest, IsAsLargeAsTheTerminalSays) {
    setenv("COLUMNS", "132", 1);
    setenv("LINES", "50", 1);
    const Console console = terminal(30, 100);
    EXPECT_EQ(console.columns(), 100U);
    EXPECT_EQ(console.rows(), 30U);
}

TEST_F(ConsoleTest, OfUnknownSizeIsAsTheEnvironmentSays) {
    setenv("COLUMNS", "132", 1);
    setenv("LINES", "50", 1);
    const Console console = terminal(0, 0);
    EXPECT_EQ(console.columns(), 132U);
    EXPECT_EQ(console.rows(), 50U);
}

TEST_F(ConsoleTest, OfUnknownSizeHasTheUsualOne) {
    for (const char* value : {"", "0", "-5", "wide", "1000000"}) {
        setenv("COLUMNS", value, 1);
        setenv("LINES", value, 1);
        const Console console = terminal(0, 0);
        EXPECT_EQ(console.columns(), 80U) << value;
        EXPECT_EQ(console.rows(), 24U) << value;
    }
}

TEST_F(ConsoleTest, ThatIsNoTerminalIsEndless) {
    setenv("COLUMNS", "132", 1);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const testing::ScopedFd read_end(ends[0]);
    const testing::ScopedFd write_end(ends[1]);
    const Console console(write_end.get(), Options::Color::never);
    EXPECT_GT(console.columns(), 100'000U);
    EXPECT_GT(console.rows(), 100'000U);
}

} // namespace
} // namespace memleax
