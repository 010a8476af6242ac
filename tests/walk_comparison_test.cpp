// SPDX-License-Identifier: GPL-3.0-or-later
// What `compare` shows of two walks.
#include "../src/cli/walk_comparison.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

namespace memleax {
namespace {

SourceFrame frame(std::uint64_t pc, const std::string& function, bool is_return_address = true) {
    SourceFrame result;
    result.pc = CodeAddr(pc);
    result.module = "prog";
    result.function = function;
    result.offset = 4;
    result.is_return_address = is_return_address;
    return result;
}

SourceFrame inlined(std::uint64_t pc, const std::string& function) {
    SourceFrame result = frame(pc, function);
    result.inlined = true;
    return result;
}

const NamedWalk kWhole{{frame(0x10, "malloc", false), frame(0x20, "leak"), frame(0x30, "main")},
                       StackEnd::outermost};

TEST(FirstDifference, IsNoneWhereFramesAndEndAreEqual) {
    EXPECT_EQ(first_difference(kWhole, kWhole), std::nullopt);
    // What is inlined belongs to its machine frame.
    const NamedWalk with_inlined{{frame(0x10, "malloc", false), inlined(0x20, "get"),
                                  frame(0x20, "leak"), frame(0x30, "main")},
                                 StackEnd::outermost};
    EXPECT_EQ(first_difference(kWhole, with_inlined), std::nullopt);
    EXPECT_EQ(first_difference(NamedWalk{}, NamedWalk{}), std::nullopt);
}

TEST(FirstDifference, IsAFrameOrTheEnd) {
    NamedWalk other = kWhole;
    other.frames = {frame(0x10, "malloc", false), frame(0x21, "leak"), frame(0x30, "main")};
    EXPECT_EQ(first_difference(kWhole, other), 1U);
    other.frames = {frame(0x10, "malloc", false), frame(0x20, "leak", false), frame(0x30, "main")};
    EXPECT_EQ(first_difference(kWhole, other), 1U) << "an interrupted pc is no return address";
    other.frames = {frame(0x10, "malloc", false), frame(0x20, "leak")};
    EXPECT_EQ(first_difference(kWhole, other), 2U);
    EXPECT_EQ(first_difference(other, kWhole), 2U);
    other = kWhole;
    other.end = StackEnd::no_rule;
    EXPECT_EQ(first_difference(kWhole, other), 3U);
}

/// On a terminal that is so wide.
std::string shown(unsigned short columns, const NamedWalk& own, const NamedWalk& other) {
    int master = -1;
    int slave = -1;
    winsize size{24, columns, 0, 0};
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
    std::string text =
        walks_side_by_side(Console(slave, Options::Color::never), own, other, NameStyle::folded);
    close(master);
    close(slave);
    return text;
}

TEST(WalksSideBySide, MarksTheFirstDifference) {
    const NamedWalk other{{frame(0x10, "malloc", false), frame(0x20, "leak")}, StackEnd::no_rule};
    EXPECT_EQ(
        shown(120, kWhole, other),
        "       memleax                            libunwind\n"
        "     0 0x0000000000000010  malloc (prog)  0x0000000000000010  malloc (prog)\n"
        "     1 0x0000000000000020  leak (prog)    0x0000000000000020  leak (prog)\n"
        "  *  2 0x0000000000000030  main (prog)    (no further frames: no unwind information)\n"
        "     3 (the outermost frame)\n");
    EXPECT_EQ(
        shown(120, other, kWhole),
        "       memleax                                     libunwind\n"
        "     0 0x0000000000000010  malloc (prog)           0x0000000000000010  malloc (prog)\n"
        "     1 0x0000000000000020  leak (prog)             0x0000000000000020  leak (prog)\n"
        "  *  2 (no further frames: no unwind information)  0x0000000000000030  main (prog)\n"
        "     3                                             (the outermost frame)\n");
}

TEST(WalksSideBySide, FitIntoTheTerminal) {
    const std::string name = "a_function_whose_name_is_longer_than_half_of_the_line";
    const NamedWalk one{{frame(0x10, name, false), frame(0x20, name)}, StackEnd::outermost};
    const NamedWalk other{{frame(0x10, name, false), frame(0x24, name)}, StackEnd::outermost};
    std::string text = shown(80, one, other);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        EXPECT_LE(end, 80U) << text.substr(0, end);
        text.erase(0, end + 1);
    }
}

} // namespace
} // namespace memleax
