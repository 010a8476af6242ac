// SPDX-License-Identifier: GPL-3.0-or-later
// A heap that is read in a copy of the process's memory, while the process runs on, is the one that
// is read in the process itself.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "memleax/heap/heap_snapshot.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

HeapSnapshot look(pid_t pid, const HeapOptions& options) {
    auto snapshot = take_heap_snapshot(Tid(pid), options);
    if (!snapshot) {
        ADD_FAILURE() << snapshot.error().message();
        return {};
    }
    EXPECT_TRUE(snapshot->complete) << snapshot->why;
    return *std::move(snapshot);
}

auto blocks_of(const HeapSnapshot& snapshot) {
    std::vector<std::pair<RemoteAddr, std::uint64_t>> blocks;
    for (const HeapBlock& block : snapshot.graph.blocks) {
        blocks.emplace_back(block.address, block.size);
    }
    return blocks;
}

/// Threads come in any order.
auto roots_of(const HeapSnapshot& snapshot) {
    std::vector<std::tuple<RootPlace::Kind, Tid, RemoteAddr, std::uint32_t, bool>> roots;
    for (std::size_t i = 0; i < snapshot.graph.roots.size(); ++i) {
        const RootPlace& place = snapshot.graph.details.root_places.at(i);
        const BlockLink& root = snapshot.graph.roots[i];
        roots.emplace_back(place.kind, place.tid, place.address, root.block(), root.is_interior());
    }
    std::sort(roots.begin(), roots.end());
    return roots;
}

class HeapCopy : public ::testing::TestWithParam<const char*> {};

TEST_P(HeapCopy, HasTheSameBlocksAndPointers) {
    if (!heap_can_be_read(GetParam())) {
        GTEST_SKIP() << GetParam() << " could not be built, or is not read, here";
    }
    Fixture fixture(GetParam());
    fixture.go();
    const HeapSnapshot copied = look(fixture.pid(), {.details = true, .link_words = true});
    const HeapSnapshot in_place =
        look(fixture.pid(), {.details = true, .link_words = true, .in_place = true});
    EXPECT_GT(copied.graph.blocks.size(), 5U);
    EXPECT_EQ(blocks_of(copied), blocks_of(in_place));
    EXPECT_GT(roots_of(copied).size(), 0U);
    EXPECT_EQ(roots_of(copied), roots_of(in_place));
    EXPECT_EQ(copied.graph.links, in_place.graph.links);
    EXPECT_EQ(copied.graph.details.first_words, in_place.graph.details.first_words);
    EXPECT_EQ(copied.graph.details.link_words, in_place.graph.details.link_words);
    EXPECT_EQ(copied.threads, in_place.threads);
    EXPECT_GT(copied.pause_ns, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, HeapCopy,
                         ::testing::Values("held_blocks", "lost_blocks", "musl-lost_blocks"),
                         [](const auto& param) {
                             std::string name = param.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

} // namespace
} // namespace memleax::testing
