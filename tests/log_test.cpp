// SPDX-License-Identifier: GPL-3.0-or-later
// Lines of several threads come whole, also while one of them says where they go.
#include "memleax/base/log.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

class LogTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(pipe2(fds_.data(), O_CLOEXEC), 0);
        set_log_fd(fds_[1]);
    }
    void TearDown() override {
        set_log_fd(STDERR_FILENO);
        set_log_level(LogLevel::info);
        close(fds_[0]);
    }
    /// All that has been written, and the end of writing.
    std::string text() {
        set_log_fd(STDERR_FILENO);
        close(fds_[1]);
        std::string result;
        char piece[4096];
        for (ssize_t n = 0; (n = read(fds_[0], piece, sizeof piece)) > 0;) {
            result.append(piece, static_cast<std::size_t>(n));
        }
        return result;
    }

    std::array<int, 2> fds_{-1, -1};
};

TEST_F(LogTest, LevelsAndUnprintableText) {
    log_error("a {}", 1);
    log_debug("b");
    set_log_level(LogLevel::debug);
    log_debug("c\x1b[2J\n");
    set_log_level(LogLevel::error);
    log_info("d");
    announce("e");
    const std::string all = text();
    EXPECT_TRUE(all.starts_with("memleax: error: a 1\nmemleax: debug: c")) << all;
    EXPECT_TRUE(all.ends_with("\nmemleax: e\n")) << all;
    EXPECT_EQ(all.find('\x1b'), std::string::npos);
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 3);
}

TEST_F(LogTest, LinesOfTwoThreadsAreWhole) {
    constexpr int kLines = 500; // in all they fit into the pipe
    std::thread other([] {
        for (int i = 0; i < kLines; ++i) {
            log_info("the other's line {}", i);
        }
    });
    for (int i = 0; i < kLines; ++i) {
        set_log_level(i % 2 == 0 ? LogLevel::info : LogLevel::debug);
        log_info("one line {}", i);
    }
    other.join();
    std::istringstream lines(text());
    std::map<std::string, int> next;
    for (std::string line; std::getline(lines, line);) {
        const auto number = line.rfind(' ');
        ASSERT_NE(number, std::string::npos) << line;
        EXPECT_EQ(line.substr(number + 1), std::to_string(next[line.substr(0, number)]++)) << line;
    }
    EXPECT_EQ(next, (std::map<std::string, int>{{"memleax: one line", kLines},
                                                {"memleax: the other's line", kLines}}));
}

} // namespace
} // namespace memleax
