// SPDX-License-Identifier: GPL-3.0-or-later
// Words that are addresses of files' data, in any order.
#include "memleax/heap/file_data.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

Mapping mapping(std::uint64_t begin, std::uint64_t end, std::uint64_t inode, bool shared = false,
                bool readable = true) {
    Mapping result;
    result.range = {begin, end};
    result.inode = inode;
    result.shared = shared;
    result.readable = readable;
    return result;
}

TEST(FileDataTest, IsThatOfPrivateReadableMappingsOfFiles) {
    const std::vector<Mapping> mappings{
        mapping(0x10, 0x20, 1), mapping(0x20, 0x30, 1, false, false), mapping(0x30, 0x40, 0),
        mapping(0x50, 0x60, 2), mapping(0x60, 0x68, 2, true),         mapping(0x70, 0x80, 3),
        mapping(0x80, 0x90, 4)};
    std::vector<bool> expected(0xa0);
    for (const auto& [begin, end] :
         std::vector<std::pair<int, int>>{{0x10, 0x20}, {0x50, 0x60}, {0x70, 0x90}}) {
        for (int at = begin; at < end; ++at) {
            expected[at] = true;
        }
    }
    FileData data(mappings);
    std::mt19937 random(18); // what was asked before is remembered
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t word = random() % expected.size();
        ASSERT_EQ(data.contains(word), expected[word]) << word;
        ASSERT_FALSE(data.contains(~0ULL - word));
    }
}

TEST(FileDataTest, IsNowhereInAProcessWithoutMappings) {
    FileData data({});
    EXPECT_FALSE(data.contains(0));
    EXPECT_FALSE(data.contains(0x1000));
    EXPECT_FALSE(data.contains(~0ULL));
}

} // namespace
} // namespace memleax
