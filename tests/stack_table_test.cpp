// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/stack_table.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

FrameAddress exact(std::uint64_t pc) {
    return FrameAddress::exact(CodeAddr(pc));
}
FrameAddress returns(std::uint64_t pc) {
    return FrameAddress::return_address(CodeAddr(pc));
}
std::vector<FrameAddress> read(const StackTable& table, StackId id) {
    const auto frames = table.frames(id);
    return {frames.begin(), frames.end()};
}

TEST(StackTable, EqualStacksShareAnId) {
    StackTable table;
    const std::vector stack{exact(0x1000), returns(0x2000)};
    const StackId id = table.intern(stack, StackEnd::outermost);
    EXPECT_EQ(id, StackId(0));
    EXPECT_EQ(table.intern(std::vector(stack), StackEnd::outermost), id);
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(read(table, id), stack);
}

TEST(StackTable, EverythingThatDiffersMakesAnother) {
    StackTable table;
    const StackId id = table.intern(std::vector{exact(1), returns(2)}, StackEnd::outermost);
    EXPECT_NE(table.intern(std::vector{exact(1), returns(3)}, StackEnd::outermost), id);
    EXPECT_NE(table.intern(std::vector{exact(1), exact(2)}, StackEnd::outermost), id);
    EXPECT_NE(table.intern(std::vector{exact(1)}, StackEnd::outermost), id);
    const StackId cut = table.intern(std::vector{exact(1), returns(2)}, StackEnd::limit);
    EXPECT_NE(cut, id);
    EXPECT_EQ(table.end(cut), StackEnd::limit);
    EXPECT_EQ(table.end(id), StackEnd::outermost);
}

TEST(StackTable, EmptyStackIsAStack) {
    StackTable table;
    const StackId id = table.intern({}, StackEnd::bad_memory);
    EXPECT_EQ(table.intern({}, StackEnd::bad_memory), id);
    EXPECT_TRUE(table.frames(id).empty());
}

TEST(StackTable, FramesNeverMove) {
    StackTable table;
    // Between them are stacks that are larger than an arena chunk, and that fill one exactly.
    const std::vector<std::size_t> lengths{1, 4095, 1, 5000, 0, 3, 4096, 2, 65535};
    std::vector<const FrameAddress*> places;
    const auto make = [](std::size_t number, std::size_t length) {
        std::vector<FrameAddress> stack(length);
        for (std::size_t i = 0; i < length; ++i) {
            stack[i] = returns((number + 1) * 0x100000 + i);
        }
        return stack;
    };
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const StackId id = table.intern(make(i, lengths[i]), StackEnd::outermost);
        ASSERT_EQ(id, StackId(static_cast<std::uint32_t>(i)));
        places.push_back(table.frames(id).data());
    }
    for (std::uint64_t i = 0; i < 20000; ++i) {
        table.intern(std::vector{exact(i)}, StackEnd::outermost);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const StackId id(static_cast<std::uint32_t>(i));
        EXPECT_EQ(read(table, id), make(i, lengths[i]));
        EXPECT_EQ(table.frames(id).data(), places[i]);
    }
}

TEST(StackTable, RemembersTheGenerationOfTheFirstTime) {
    StackTable table;
    table.set_generation(3);
    const StackId old = table.intern(std::vector{exact(1)}, StackEnd::outermost);
    table.set_generation(4);
    EXPECT_EQ(table.intern(std::vector{exact(1)}, StackEnd::outermost), old);
    EXPECT_EQ(table.generation(old), 3U);
    EXPECT_EQ(table.generation(table.intern(std::vector{exact(2)}, StackEnd::outermost)), 4U);
}

TEST(StackTable, GoneCodeEndsAStack) {
    StackTable table;
    const std::vector through{exact(0x10), returns(0x5010)};
    const std::vector beside{exact(0x10), returns(0x6010)};
    const StackId old = table.intern(through, StackEnd::outermost);
    const StackId kept = table.intern(beside, StackEnd::outermost);
    table.on_code_gone({0x5000, 0x6000});
    EXPECT_EQ(read(table, old), through); // what was reported stays readable
    EXPECT_EQ(table.intern(beside, StackEnd::outermost), kept);
    const StackId anew = table.intern(through, StackEnd::outermost);
    EXPECT_NE(anew, old);
    EXPECT_EQ(table.intern(through, StackEnd::outermost), anew);
}

TEST(StackTable, ACallAtTheEndOfGoneCodeWasInIt) {
    StackTable table;
    const std::vector last{returns(0x6000)};  // the call is at 0x5fff at the latest
    const std::vector first{returns(0x5000)}; // the call is before the range
    const StackId gone = table.intern(last, StackEnd::outermost);
    const StackId kept = table.intern(first, StackEnd::outermost);
    table.on_code_gone({0x5000, 0x6000});
    EXPECT_NE(table.intern(last, StackEnd::outermost), gone);
    EXPECT_EQ(table.intern(first, StackEnd::outermost), kept);
}

} // namespace
} // namespace memleax
