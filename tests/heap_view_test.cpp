// SPDX-License-Identifier: GPL-3.0-or-later
// A look at a heap, and what has become of its blocks since.
#include "memleax/session/heap_view.hpp"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "memleax/session/process_account.hpp"

namespace memleax {
namespace {

/// Two blocks that were watched and one that was there before, all lost at 10; the tracker's time
/// has no other unit here.
class HeapViewTest : public testing::Test {
  protected:
    HeapViewTest() {
        alloc(0x1000, 1);
        alloc(0x2000, 2);
        HeapSnapshot snapshot;
        snapshot.complete = true;
        snapshot.time = MonotonicNs(10);
        for (const std::uint64_t address : {0x1000, 0x2000, 0x3000}) {
            snapshot.graph.blocks.push_back({RemoteAddr(address), 100});
            snapshot.graph.links.begin_block();
        }
        snapshot.graph.links.finish(3);
        account_.set_heap(std::make_unique<HeapView>(std::move(snapshot), account_.pid(),
                                                     account_.tracker(), account_.names()));
    }
    void alloc(std::uint64_t address, std::int64_t time) { send(EventKind::alloc, address, time); }
    void send(EventKind kind, std::uint64_t address, std::int64_t time) {
        account_.tracker().on_event(
            {.kind = kind,
             .tid = Tid(1),
             .address = RemoteAddr(address),
             .size = 90,
             .old_address = {},
             .stack = account_.account().stacks.intern(
                 std::vector{FrameAddress::exact(CodeAddr(1))}, StackEnd::outermost),
             .time = MonotonicNs(time)});
    }
    std::uint64_t lost() {
        HeapView& heap = *account_.heap();
        const LeakFindings found = heap.findings(0, heap.gone());
        std::uint64_t in_records = 0;
        for (const LeakRecord& record : found.records) {
            in_records += record.count.blocks;
        }
        const BlockCount& total = found.total(LossClass::definite);
        EXPECT_EQ(in_records, total.blocks);
        EXPECT_EQ(total.bytes, total.blocks * 100);
        return total.blocks;
    }

    ProcessAccounts accounts_{{.memory_block_max = 0, .call_stack_max = 0}, ""};
    ProcessAccount& account_ = accounts_.add(test::own_pid(), Tid(0));
};

TEST_F(HeapViewTest, WhatIsFreedSinceIsNotLost) {
    EXPECT_EQ(lost(), 3U);
    send(EventKind::free, 0x1000, 11);
    EXPECT_EQ(lost(), 2U);
    alloc(0x1000, 12); // another one
    EXPECT_EQ(lost(), 2U);
    send(EventKind::free, 0x2000, 13);
    EXPECT_EQ(lost(), 1U) << "of the third nobody knows";
}

// That nobody watches it any more does not say that it was freed.
TEST_F(HeapViewTest, WhatIsSetAsideSinceIsLostStill) {
    account_.tracker().on_gap(MonotonicNs(11));
    EXPECT_EQ(lost(), 3U);
    alloc(0x2000, 12);
    EXPECT_EQ(lost(), 2U) << "its address was given out again";
}

TEST_F(HeapViewTest, AnotherProgramHasNoneOfIt) {
    account_.forget_old_heap();
    ASSERT_NE(account_.heap(), nullptr);
    account_.tracker().on_memory_gone(MonotonicNs(11));
    account_.forget_old_heap();
    EXPECT_EQ(account_.heap(), nullptr);
}

} // namespace
} // namespace memleax
