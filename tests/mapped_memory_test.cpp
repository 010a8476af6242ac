// SPDX-License-Identifier: GPL-3.0-or-later
// memleax --track on programs that know what they have mapped and what is left of it.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kAll = "heap,mmap,brk,shm";

/// The report on a round of the fixture's work.
struct Round {
    FixtureAnswer answer;
    nlohmann::json report;
};
Round watch_round(Fixture& fixture, const std::string& kinds) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "1000", "--track", kinds, std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    Round round;
    round.answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    round.report = result.json();
    return round;
}

std::int64_t live_bytes(const nlohmann::json& report, const char* kind) {
    return report.at("mapped").at(kind).at("live_bytes");
}
std::int64_t live_blocks(const nlohmann::json& report, const char* kind) {
    return report.at("mapped").at(kind).at("live_blocks");
}
/// What call stacks of this kind add up to.
Leak sum_of(const nlohmann::json& stacks, const std::string& kind) {
    Leak sum;
    for (const auto& stack : stacks) {
        if (stack.at("kind") == kind) {
            sum.blocks += stack.at("live_blocks").get<std::int64_t>();
            sum.bytes += stack.at("live_bytes").get<std::int64_t>();
        }
    }
    return sum;
}

TEST(MappedMemory, EachCallsRestIsExact) {
    Fixture fixture("mapped");
    const auto [answer, report] = watch_round(fixture, kAll);
    expect_truth(report, answer);
    EXPECT_EQ(report.at("mapped").at("failed"), answer.counts.at("failed_mapping"));
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
    for (const char* kind : {"mmap", "brk", "shm"}) {
        EXPECT_EQ(sum_of(report.at("callstacks"), kind),
                  (Leak{live_blocks(report, kind), live_bytes(report, kind)}))
            << kind;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(MappedMemory, AsMuchTheSecondTime) {
    Fixture fixture("mapped");
    fixture.go();
    FixtureAnswer before = fixture.ask("truth");
    auto [answer, report] = watch_round(fixture, kAll);
    for (auto& [function, leak] : answer.truth) { // this round's
        leak.blocks -= before.truth[function].blocks;
        leak.bytes -= before.truth[function].bytes;
    }
    expect_truth(report, answer);
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
}

TEST(MappedMemory, WhatAnAllocatorMapsIsNotCountedBesideItsBlocks) {
    Fixture fixture("mapped");
    const auto [answer, report] = watch_round(fixture, kAll);
    const Leak internal = sum_of(report.at("internal_callstacks"), "allocator");
    EXPECT_EQ(internal, (Leak{live_blocks(report, "allocator"), live_bytes(report, "allocator")}));
    const auto& much = answer.truth.at("allocate_much");
    const auto& aligned = answer.truth.at("allocate_aligned");
    EXPECT_GE(internal.bytes, much.bytes + aligned.bytes);
    for (const auto& stack : report.at("internal_callstacks")) {
        EXPECT_TRUE(allocating_function(stack).starts_with("allocate_"))
            << allocating_function(stack);
    }
}

// tcmalloc has an mmap, munmap, mremap and sbrk of its own, which the program calls too.
class MappedBeside : public ::testing::TestWithParam<std::string> {};

TEST_P(MappedBeside, AnotherAllocator) {
    const Environment preloaded{{"LD_PRELOAD", "lib" + GetParam()}};
    Fixture fixture("mapped", {}, preloaded);
    const auto [answer, report] = watch_round(fixture, kAll);
    expect_truth(report, answer);
    EXPECT_EQ(report.at("mapped").at("failed"), answer.counts.at("failed_mapping"));
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
    EXPECT_GE(live_bytes(report, "allocator"), 2 << 20);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(That, MappedBeside,
                         ::testing::Values("jemalloc.so.2", "tcmalloc.so.4",
                                           "tcmalloc_minimal.so.4", "mimalloc.so.2"),
                         [](const auto& instance) {
                             return instance.param.substr(0, instance.param.find('.'));
                         });

TEST(MappedMemory, ThreadStacksAreToldApart) {
    Fixture fixture("mapped", {"stacks"});
    const auto [answer, report] = watch_round(fixture, "mmap,brk");
    EXPECT_EQ(live_blocks(report, "mmap"), 0);
    const std::int64_t stacks = live_blocks(report, "thread-stack");
    EXPECT_GE(stacks, 1) << "glibc keeps them for the next threads";
    EXPECT_LE(stacks, 3);
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
}

class LivingThreads : public ::testing::TestWithParam<std::string> {};

TEST_P(LivingThreads, HaveStacks) {
    if (!is_built(GetParam())) {
        GTEST_SKIP() << "musl is not there";
    }
    Fixture fixture(GetParam(), {"living"});
    const auto [answer, report] = watch_round(fixture, "mmap,brk");
    EXPECT_EQ(live_blocks(report, "mmap"), 0) << report.at("callstacks");
    EXPECT_EQ(live_blocks(report, "thread-stack"), 3) << report.at("mapped");
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
}

INSTANTIATE_TEST_SUITE_P(Of, LivingThreads,
                         ::testing::Values("mapped", "mapped-static", "mapped-static-stripped",
                                           "musl-mapped", "musl-dynamic-mapped"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(MappedMemory, WithoutTheHeapMallocHasNoBreakpoint) {
    Fixture fixture("mapped");
    auto [answer, report] = watch_round(fixture, "mmap,shm");
    for (const char* other : {"allocate_much", "grow_by_brk", "grow_by_sbrk"}) {
        answer.truth.erase(other);
    }
    // glibc's aligned_alloc jumps on, so that its code is not on the stack (docs/tracking.md).
    answer.truth["allocate_aligned"] = {1, answer.counts.at("allocate_aligned_mapped")};
    expect_truth(report, answer);
    EXPECT_EQ(report.at("session").at("events").at("alloc"), 0);
    EXPECT_GE(live_bytes(report, "allocator"), 1 << 20);
}

TEST(MappedMemory, OneKindAlone) {
    Fixture fixture("mapped");
    auto [answer, report] = watch_round(fixture, "shm");
    std::erase_if(answer.truth, [](const auto& each) { return !each.first.starts_with("attach"); });
    expect_truth(report, answer);
}

TEST(MappedMemory, SixteenThreadsAtOnce) {
    Stress stress(1);
    while (stress.next()) {
        Fixture fixture("mapped", {"threads"});
        const auto [answer, report] = watch_round(fixture, kAll);
        expect_truth(report, answer);
        EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
    }
}

TEST(MappedMemory, StaticPrograms) {
    Fixture fixture("mapped-static");
    const auto [answer, report] = watch_round(fixture, kAll);
    expect_truth(report, answer);
    EXPECT_EQ(report.at("mapped").at("failed"), answer.counts.at("failed_mapping"));
}

class MappedWithMusl : public ::testing::TestWithParam<std::string> {};

TEST_P(MappedWithMusl, EachCallsRestIsExact) {
    if (!is_built(GetParam())) {
        GTEST_SKIP() << "musl is not there";
    }
    Fixture fixture(GetParam());
    const auto [answer, report] = watch_round(fixture, kAll);
    expect_truth(report, answer);
    EXPECT_EQ(report.at("mapped").at("failed"), answer.counts.at("failed_mapping"));
    EXPECT_GE(live_bytes(report, "allocator"), 2 << 20);
}

INSTANTIATE_TEST_SUITE_P(Program, MappedWithMusl,
                         ::testing::Values("musl-mapped", "musl-dynamic-mapped"),
                         [](const auto& instance) {
                             return instance.param == "musl-mapped" ? "Static" : "Dynamic";
                         });

TEST(MappedMemory, AttachedAndLeftAtAnyMoment) {
    Fixture fixture("mapped", {"spin"});
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    Stress stress(4);
    while (stress.next()) {
        Memleax memleax({"-F", "json", "--track", kAll, std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        // Each thread has a range or two, of 13 pages at most.
        const auto report = result.json();
        EXPECT_LE(live_blocks(report, "mmap"), 3 * 16) << report.at("mapped");
    }
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// What the program before had is gone with it.
TEST(MappedMemory, OfAProgramThatIsExecutedMeanwhile) {
    ChildProcess shell(
        {"/bin/bash", "-c", "echo begun; read -r line; exec " + fixture_path("mapped")});
    ASSERT_EQ(shell.read_line(), "begun");
    Memleax memleax({"-F", "json", "-e", "1000", "--track", kAll, std::to_string(shell.pid())});
    memleax.wait_until_watching();
    shell.send("execute it");
    ASSERT_EQ(shell.read_line(), "ready");
    shell.send("go");
    const FixtureAnswer answer = read_answer(shell);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_EQ(result.json().at("mapped").at("unexplained_bytes"), 0) << result.json().at("mapped");
    shell.send("quit");
    EXPECT_EQ(shell.wait_for_end(), 0);
}

TEST(MappedMemory, IsNotFollowedUnlessAskedFor) {
    Fixture fixture("mapped");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_FALSE(report.contains("mapped"));
    EXPECT_EQ(live_leaks(report), (Leaks{{"allocate_much", {2, (1 << 20) + 2000}},
                                         {"allocate_aligned", {1, 1 << 20}}}));
}

// What the inline engine maps for threads that are born is not the program's.
TEST(MappedMemory, OursForThreadsIsNotTheirs) {
    Fixture fixture("blocking_births", {"60"});
    Memleax memleax({"-F", "json", "--track", "heap,mmap", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("mapped").at("unexplained_bytes"), 0) << report.at("mapped");
}

TEST(MappedMemory, EventsHaveTheirStacks) {
    Fixture fixture("mapped");
    Memleax memleax({"-n", "-e", "1000", "--track", "mmap,brk,shm", "-x", "events 1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::string pid = std::to_string(fixture.pid());
    EXPECT_THAT(result.output, HasSubstr("thread " + pid + ": mmap maps 0x"));
    EXPECT_THAT(result.output, HasSubstr("map_with_hole"));
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("{} bytes, 0 of them known", 3 * sysconf(_SC_PAGESIZE))));
    EXPECT_THAT(result.output, HasSubstr(": mmap failed (mmap)\n"));
    EXPECT_THAT(result.output, HasSubstr(": mremap ends 0x"));
    EXPECT_THAT(result.output, HasSubstr("10000 bytes (brk)\n"));
    EXPECT_THAT(result.output, HasSubstr(": shmdt ends 0x"));
    EXPECT_THAT(result.output, HasSubstr("(allocator)"));
    EXPECT_THAT(result.output, HasSubstr("== Mapped memory: "));
    EXPECT_THAT(result.output, Not(HasSubstr("calls that were not seen")));
}

TEST(MappedMemory, EventsArePrintedAsTheyHappen) {
    Fixture fixture("mapped", {"stacks"});
    Memleax memleax({"-n", "--track", "mmap", "--events", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto line = memleax.process().read_line(); // comes while the watching goes on
    ASSERT_TRUE(line);
    EXPECT_THAT(*line, HasSubstr("mmap maps 0x"));
    EXPECT_THAT(*line, HasSubstr("(thread-stack)"));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_THAT(result.output, HasSubstr("pthread_create"));
}

TEST(MappedMemory, FoldedStacksNameTheKind) {
    Fixture fixture("mapped");
    Memleax memleax({"-F", "folded", "--track", kAll, std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const std::string output = memleax.interrupt_and_finish().output;
    EXPECT_THAT(output, HasSubstr("[mmap];"));
    EXPECT_THAT(output, HasSubstr("[shm];"));
    EXPECT_THAT(output, HasSubstr("grow_by_sbrk;sbrk 12000\n"));
    EXPECT_THAT(output, Not(HasSubstr("[allocator]")));
}

} // namespace
} // namespace memleax::testing
