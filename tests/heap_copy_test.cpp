// SPDX-License-Identifier: GPL-3.0-or-later
// A heap that is read in a copy of the process's memory, or of the process, while that runs on, is
// the one that is read in the process itself.
#include <algorithm>
#include <csignal>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"
#include "process_support.hpp"
#include "worker_support.hpp"

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

/// This process is not killed.
class Nobody final : public Caretaker {
  public:
    RecoveryFile* take_duty() override { return file_ ? file_->get() : nullptr; }
    void leave_duty() override {}

  private:
    Result<std::unique_ptr<RecoveryFile>> file_ = RecoveryFile::create();
};

struct Way {
    const char* fixture;
    bool forks;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.fixture << (way.forks ? ", forked" : "");
}

class HeapCopy : public ::testing::TestWithParam<Way> {};

TEST_P(HeapCopy, HasTheSameBlocksAndPointers) {
    const auto [name, forks] = GetParam();
    if (!is_built(name)) {
        GTEST_SKIP() << name << " could not be built here";
    }
    Fixture fixture(name);
    fixture.go();
    Nobody nobody;
    const HeapSnapshot copied = look(
        fixture.pid(), {.details = true, .link_words = true, .forks = forks, .caretaker = &nobody});
    EXPECT_EQ(copied.forked, forks);
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

TEST(HeapCopySize, WhatIsSmallerIsNotForked) {
    Fixture fixture("grower");
    fixture.ask("grow 32");
    Nobody nobody;
    const auto forked = [&](std::uint64_t from) {
        return look(fixture.pid(), {.forks = true, .fork_from = from, .caretaker = &nobody}).forked;
    };
    EXPECT_TRUE(forked(0));
    EXPECT_TRUE(forked(32U << 20));
    EXPECT_FALSE(forked(64U << 20));
    EXPECT_EQ(fixture.quit(), 0);
}

class HeapOfAStoppedProcess : public ::testing::TestWithParam<bool> {};

// Somebody has stopped it after it was looked at first (check_watchable()).
TEST_P(HeapOfAStoppedProcess, ItStaysStopped) {
    Fixture fixture("held_blocks");
    fixture.process().signal(SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(fixture.pid()), &info, WSTOPPED | WNOWAIT), 0);
    Nobody nobody;
    const HeapSnapshot snapshot =
        look(fixture.pid(), {.details = true, .forks = GetParam(), .caretaker = &nobody});
    EXPECT_EQ(snapshot.forked, GetParam());
    EXPECT_GT(snapshot.graph.blocks.size(), 0U);
    // Let go of, a thread of a stopped process runs for a moment, within the kernel, to stop again
    // (__ptrace_unlink(), JOBCTL_STOP_PENDING).
    const auto state = [&fixture] { return try_read_process_info(Tid(fixture.pid()))->state; };
    for (const Patience patience(5000); state() == 'R' && !patience.is_over();) {
        usleep(1000);
    }
    EXPECT_EQ(state(), 'T');
    EXPECT_THAT(children_of(fixture.pid()), ::testing::IsEmpty());
    fixture.process().signal(SIGCONT);
    EXPECT_THAT(fixture.go().failures, ::testing::IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(By, HeapOfAStoppedProcess, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "fork" : "copy"; });

INSTANTIATE_TEST_SUITE_P(Of, HeapCopy,
                         ::testing::Values(Way{"held_blocks", false}, Way{"held_blocks", true},
                                           Way{"lost_blocks", false}, Way{"lost_blocks", true},
                                           Way{"parent", false}, Way{"parent", true},
                                           Way{"musl-lost_blocks", false},
                                           Way{"musl-lost_blocks", true}),
                         [](const auto& instance) {
                             std::string name = instance.param.fixture;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name + (instance.param.forks ? "_forked" : "");
                         });

} // namespace
} // namespace memleax::testing
