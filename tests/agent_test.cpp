// SPDX-License-Identifier: GPL-3.0-or-later
// The agent, as ordinary functions of this program: what it records, what it lets trap, and that it
// finds the call stacks that the tree tells of, and no others.
#include "../src/engine/inline/agent/agent.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "../src/engine/inline/call_tree.hpp"
#include "arch.hpp"
#include "memleax/unwind/frame_pointer.hpp"
#include "thread_area.hpp"

namespace memleax {
namespace {

using agent::Answer;
using agent::Data;
using agent::Entry;
using agent::Frame;
using agent::Function;
using agent::Progress;
using agent::Thread;

/// As in the target: zeros, of which only what is used takes memory.
class AgentTest : public ::testing::Test, protected CallTreeWriter {
  protected:
    AgentTest()
        : data_(static_cast<Data*>(mmap(nullptr, sizeof(Data), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
          tree_(*this), stack_(1024) {
        data_->enabled = 1;
        data_->tick = 7;
        data_->epoch = 1;
        const auto from = arch::kThreadPointerIsInMemory ? arch::ThreadPointerFrom::memory
                                                         : arch::ThreadPointerFrom::cpu;
        data_->pointer_from = static_cast<std::uint8_t>(from);
        const std::uint64_t pointer = arch::agent_thread_pointer(from);
        Thread& thread = data_->threads[0];
        thread.pointer = pointer;
        thread.stack_begin = address(0);
        thread.stack_end = address(stack_.size());
        use_ring(thread, 0);
        progress().forced_stack = agent::kNoStackId;
        thread.ready = 1;
        data_->thread_slots[agent::thread_slot(pointer)] = 1;
        malloc_ = function(0, Function::Kind::allocate, -1, 0, -1);
        calloc_ = function(1, Function::Kind::allocate, -1, 1, 0);
        free_ = function(2, Function::Kind::free, 0, -1, -1);
        realloc_ = function(3, Function::Kind::reallocate, 0, 1, -1);
    }
    ~AgentTest() override { munmap(data_, sizeof(Data)); }

    void write_node(std::uint32_t index, const agent::Node& node) override {
        data_->nodes[index] = node;
    }
    void write_child(std::uint32_t slot, std::uint32_t node) override {
        data_->children[slot] = node;
    }
    void write_first_child(std::uint32_t parent, std::uint32_t node) override {
        __atomic_store_n(&data_->nodes[parent].first_child, node, __ATOMIC_RELEASE);
    }
    void clear_children(std::uint32_t first_slot, std::uint32_t count) override {
        std::fill_n(&data_->children[first_slot], count, 0);
    }
    void clear_functions() override {
        for (std::uint32_t function = 0; function <= agent::kMaxFunctions; ++function) {
            data_->nodes[function].first_child = 0;
        }
        const std::uint32_t next = data_->epoch + 1; // a low byte of 0 is none
        __atomic_store_n(&data_->epoch, next % 256 == 0 ? next + 1 : next, __ATOMIC_SEQ_CST);
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    void use_ring(Thread& thread, std::size_t index) {
        thread.ring = reinterpret_cast<std::uint64_t>(data_->wide[0].rings[index]);
        thread.ring_parts = agent::kRingEntries / agent::kRingPart;
        thread.memos = reinterpret_cast<std::uint64_t>(data_->wide[0].memos[index]);
        thread.memo_count = agent::kMemos;
    }
    [[nodiscard]] Function function(std::uint8_t number, Function::Kind kind, int pointer, int size,
                                    int count) const {
        Function result;
        result.data = reinterpret_cast<std::uint64_t>(data_);
        result.number = number;
        result.kind = kind;
        result.pointer_argument = static_cast<std::int8_t>(pointer);
        result.size_argument = static_cast<std::int8_t>(size);
        result.count_argument = static_cast<std::int8_t>(count);
        return result;
    }
    [[nodiscard]] std::uint64_t address(std::size_t word) const {
        return reinterpret_cast<std::uint64_t>(stack_.data() + word);
    }
    [[nodiscard]] Thread& thread() { return data_->threads[0]; }
    [[nodiscard]] Progress& progress() { return data_->progress[0]; }
    [[nodiscard]] std::uint64_t recorded() const { return data_->progress[0].head; }
    [[nodiscard]] const Entry& entry(std::uint64_t n) const { return data_->wide[0].rings[0][n]; }

    [[nodiscard]] std::uint64_t argument(int n) {
        return arch::agent_argument(frame_.registers, n);
    }
    /// The stack pointer at the entry of a call that leaves its caller this word and those behind.
    [[nodiscard]] std::uint64_t entry_sp(std::size_t word) const {
        return address(word) - arch::kAgentEntryBytes;
    }
    /// A call whose caller's stack begins behind this word, which is the return address.
    Answer enter(const Function& function, std::size_t word, std::uint64_t first,
                 std::uint64_t second = 0, std::uint64_t fp = 0) {
        frame_ = {};
        arch::agent_argument(frame_.registers, 0) = first;
        arch::agent_argument(frame_.registers, 1) = second;
        return agent::memleax_agent_enter(&function, &frame_, entry_sp(word + 1), fp, stack_[word]);
    }
    /// It has returned: what the stub does then.
    bool leave(Frame& frame, std::uint64_t result) {
        if (frame.ending != agent::Ending::free) {
            return agent::memleax_agent_leave(&frame, result);
        }
        progress().inside = 0;
        progress().interrupted = 0;
        return true;
    }
    /// Called from one place, by the program's first function.
    void know_one_caller(const Function& function, std::uint64_t caller, StackId id) {
        UnwoundStack stack;
        stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                        FrameAddress::return_address(CodeAddr(caller))};
        stack.end = StackEnd::outermost;
        const std::vector<Rule> rules{Rule::of(Rule::Kind::regular),
                                      Rule::of(Rule::Kind::outermost)};
        ASSERT_TRUE(tree_.add(function.number, stack, rules, id));
    }

    Data* data_;
    CallTree tree_;
    std::vector<std::uint64_t> stack_;
    Frame frame_{};
    Function malloc_;
    Function calloc_;
    Function free_;
    Function realloc_;
};

/// Of a frame of a word and the return address.
Rule two_words() {
    Rule rule = Rule::of(Rule::Kind::regular);
    rule.cfa_offset = 16;
    rule.ra_offset = -8;
    return rule;
}

constexpr std::uint64_t kCaller = 0x4010;
constexpr std::uint64_t kBlock = 0x5550;

TEST_F(AgentTest, RecordsAnAllocationWhenItHasReturned) {
    know_one_caller(malloc_, kCaller, StackId(9));
    stack_[100] = kCaller;
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    EXPECT_EQ(recorded(), 0U);
    EXPECT_EQ(progress().inside, entry_sp(101));
    leave(frame_, kBlock);
    ASSERT_EQ(recorded(), 1U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::allocated);
    EXPECT_EQ(entry(0).address, kBlock);
    EXPECT_EQ(entry(0).size_or_caller, 64U);
    EXPECT_EQ(entry(0).stack, 9U);
    EXPECT_EQ(entry(0).tick, 7);
    EXPECT_EQ(progress().inside, 0U);
    EXPECT_EQ(data_->next_ticket, 1U);
}

TEST_F(AgentTest, TakesABlockFromWhereItWasStored) {
    Function posix_memalign = function(4, Function::Kind::allocate, -1, 2, -1);
    posix_memalign.out_argument = 0;
    know_one_caller(posix_memalign, kCaller, StackId(9));
    stack_[100] = kCaller;
    std::uint64_t block = kBlock;
    ASSERT_EQ(enter(posix_memalign, 100, reinterpret_cast<std::uint64_t>(&block)), Answer::call);
    EXPECT_TRUE(leave(frame_, 0));
    EXPECT_EQ(entry(0).address, kBlock);
    // ENOMEM: nothing was stored, and nothing need be there.
    ASSERT_EQ(enter(posix_memalign, 100, 1), Answer::call);
    EXPECT_TRUE(leave(frame_, 12));
    EXPECT_EQ(entry(1).address, 0U);
    EXPECT_EQ(recorded(), 2U);
}

TEST_F(AgentTest, CallsTheNothrowTwinOfAFunctionThatThrows) {
    Function operator_new = function(4, Function::Kind::allocate, -1, 0, -1);
    operator_new.nothrow_argument = 1;
    operator_new.original = 0x1000;
    operator_new.called = 0x2000;
    know_one_caller(operator_new, kCaller, StackId(9));
    stack_[100] = kCaller;
    ASSERT_EQ(enter(operator_new, 100, 64, 77), Answer::call);
    EXPECT_EQ(argument(0), 64U);
    EXPECT_NE(argument(1), 77U); // some std::nothrow_t
    EXPECT_TRUE(leave(frame_, kBlock));
    EXPECT_EQ(entry(0).address, kBlock);
    // It fails, and then the other one is to throw.
    ASSERT_EQ(enter(operator_new, 100, 64), Answer::call);
    EXPECT_FALSE(leave(frame_, 0));
    EXPECT_EQ(recorded(), 1U);
    EXPECT_EQ(progress().has_failed, 1);
    EXPECT_EQ(progress().inside, 0U);
}

TEST_F(AgentTest, RecordsAFreeBeforeTheAllocatorGetsTheBlock) {
    stack_[100] = kCaller;
    ASSERT_EQ(enter(free_, 100, kBlock), Answer::call);
    ASSERT_EQ(recorded(), 1U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::freed);
    EXPECT_EQ(entry(0).address, kBlock);
    EXPECT_EQ(entry(0).size_or_caller, kCaller);
    leave(frame_, 0);
    EXPECT_EQ(recorded(), 1U);
    EXPECT_EQ(enter(free_, 100, 0), Answer::pass); // of nothing
    EXPECT_EQ(recorded(), 1U);
}

// The tracer has walked it, as the thread was a new one: the next call has another stack.
TEST_F(AgentTest, AFreeOfNothingTakesItsStackAlong) {
    progress().forced_stack = 5;
    EXPECT_EQ(enter(free_, 100, 0), Answer::pass);
    EXPECT_EQ(progress().forced_stack, agent::kNoStackId);
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap);
}

TEST_F(AgentTest, MultipliesLikeCalloc) {
    know_one_caller(calloc_, kCaller, StackId(1));
    stack_[100] = kCaller;
    ASSERT_EQ(enter(calloc_, 100, 3, 50), Answer::call);
    leave(frame_, kBlock);
    EXPECT_EQ(entry(0).size_or_caller, 150U);
    ASSERT_EQ(enter(calloc_, 100, 1ULL << 40, 1ULL << 40), Answer::call);
    leave(frame_, 0);
    EXPECT_EQ(entry(1).size_or_caller, ~0ULL);
    EXPECT_EQ(entry(1).address, 0U);
}

TEST_F(AgentTest, ReallocIsTwoMoments) {
    know_one_caller(realloc_, kCaller, StackId(2));
    stack_[100] = kCaller;
    ASSERT_EQ(enter(realloc_, 100, kBlock, 10), Answer::call);
    ASSERT_EQ(recorded(), 1U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::realloc_began);
    leave(frame_, kBlock + 64);
    ASSERT_EQ(recorded(), 2U);
    EXPECT_EQ(entry(1).kind, Entry::Kind::allocated);
    // Whether realloc(p, 0) frees depends on the allocator.
    EXPECT_EQ(enter(realloc_, 100, kBlock, 0), Answer::trap);
    // And that of nothing is malloc.
    ASSERT_EQ(enter(realloc_, 100, 0, 10), Answer::call);
    EXPECT_EQ(recorded(), 2U);
}

TEST_F(AgentTest, CallsWithinACallAreAPartOfIt) {
    know_one_caller(malloc_, kCaller, StackId(3));
    stack_[100] = stack_[50] = kCaller;
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    Frame outer = frame_;
    EXPECT_EQ(enter(malloc_, 50, 32), Answer::pass);
    EXPECT_EQ(enter(free_, 50, kBlock), Answer::pass);
    ASSERT_EQ(recorded(), 1U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::inner_free);
    EXPECT_EQ(enter(realloc_, 50, kBlock, 8), Answer::trap); // what ends may be a program's block
    progress().interrupted = 1;
    EXPECT_EQ(enter(malloc_, 50, 32), Answer::trap); // may be a handler's
    leave(outer, kBlock);
    EXPECT_EQ(progress().interrupted, 0);
    EXPECT_EQ(enter(malloc_, 50, 32), Answer::call);
}

TEST_F(AgentTest, ACallThatWasLeftIsNotOneAnyMore) {
    know_one_caller(malloc_, kCaller, StackId(3));
    stack_[100] = stack_[200] = stack_[250] = kCaller;
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    EXPECT_EQ(enter(malloc_, 200, 64), Answer::call); // the stack is shorter
    progress().interrupted = 1; // by a signal, whose handler may have its stack there
    EXPECT_EQ(enter(malloc_, 250, 64), Answer::trap);
    EXPECT_EQ(progress().inside, entry_sp(201));
}

TEST_F(AgentTest, WhatItDoesNotKnowTraps) {
    know_one_caller(malloc_, kCaller, StackId(3));
    stack_[100] = kCaller;
    stack_[101] = kCaller + 1;
    EXPECT_EQ(enter(malloc_, 101, 64), Answer::trap);    // another caller
    EXPECT_EQ(enter(calloc_, 100, 64, 1), Answer::trap); // another function
    progress().forced_stack = 77;
    ASSERT_EQ(enter(malloc_, 101, 64), Answer::call); // the tracer has walked it
    leave(frame_, kBlock);
    EXPECT_EQ(entry(0).stack, 77U);
    EXPECT_EQ(progress().forced_stack, agent::kNoStackId); // once
    thread().stack_begin = address(150);
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap); // on another stack
    thread().stack_begin = address(0);
    thread().trap = 1;
    EXPECT_EQ(enter(free_, 100, kBlock), Answer::trap);
    thread().trap = 0;
    thread().pointer += 8;
    EXPECT_EQ(enter(free_, 100, kBlock), Answer::trap); // an unknown thread
    EXPECT_EQ(recorded(), 1U);
}

// The tracer and its guardian were killed: a signal's handler has got a trap, and has told so.
TEST_F(AgentTest, WhatItDoesNotKnowPassesWhereNobodyIsLeft) {
    std::uint8_t unattended = 0;
    data_->unattended = reinterpret_cast<std::uint64_t>(&unattended);
    data_->may_pass = 1;
    know_one_caller(malloc_, kCaller, StackId(3));
    stack_[100] = kCaller;
    stack_[101] = kCaller + 1;
    EXPECT_EQ(enter(malloc_, 101, 64), Answer::trap); // not yet
    unattended = 1;
    EXPECT_EQ(enter(malloc_, 101, 64), Answer::pass);
    EXPECT_EQ(enter(realloc_, 100, kBlock, 0), Answer::pass);
    for (std::uint64_t calls = 0; enter(free_, 100, kBlock) == Answer::call; ++calls) {
        leave(frame_, 0);
        ASSERT_LE(calls, agent::kRingEntries);
    }
    EXPECT_EQ(enter(free_, 100, kBlock), Answer::pass); // no room
    thread().pointer += 8;
    EXPECT_EQ(enter(free_, 100, kBlock), Answer::pass); // an unknown thread
}

// The tracer was there all the time, and lets none pass from then on.
TEST_F(AgentTest, NothingPassesWhereItMayNot) {
    const std::uint8_t unattended = 1;
    data_->unattended = reinterpret_cast<std::uint64_t>(&unattended);
    stack_[100] = kCaller;
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap);
    data_->may_pass = 1;
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::pass);
    data_->may_pass = 0;
    data_->unattended = 8; // nobody may read there
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap);
}

TEST_F(AgentTest, DoesNothingWhereItIsDisabled) {
    know_one_caller(malloc_, kCaller, StackId(3));
    stack_[100] = kCaller;
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    std::memset(static_cast<void*>(data_), 0, 4096); // as a fork does
    leave(frame_, kBlock);
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::pass);
    EXPECT_EQ(enter(free_, 100, kBlock), Answer::pass);
    EXPECT_EQ(data_->wide[0].rings[0][0].address, 0U);
}

TEST_F(AgentTest, ABlockThatItsThreadFreesAtOnceIsOneEntry) {
    know_one_caller(malloc_, kCaller, StackId(9));
    stack_[100] = kCaller;
    const auto allocate = [this](std::uint64_t block) {
        ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
        leave(frame_, block);
    };
    const auto release = [this](std::uint64_t block) {
        ASSERT_EQ(enter(free_, 100, block), Answer::call);
        leave(frame_, 0);
    };
    allocate(kBlock);
    allocate(kBlock + 32);
    data_->tick = 9;
    release(kBlock);
    ASSERT_EQ(recorded(), 2U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::brief);
    EXPECT_EQ(entry(0).tick, 7);
    EXPECT_EQ(entry(0).end_tick, 9);
    EXPECT_EQ(entry(1).kind, Entry::Kind::allocated);
    // A second time it is none of them.
    release(kBlock);
    ASSERT_EQ(recorded(), 3U);
    EXPECT_EQ(entry(2).kind, Entry::Kind::freed);
    // What may have been read stays as it is.
    thread().claimed_parts = 1;
    release(kBlock + 32);
    ASSERT_EQ(recorded(), 4U);
    EXPECT_EQ(entry(1).kind, Entry::Kind::allocated);
    EXPECT_EQ(entry(3).kind, Entry::Kind::freed);
    // So does what realloc takes.
    thread().claimed_parts = 0;
    allocate(kBlock);
    ASSERT_EQ(enter(realloc_, 100, kBlock, 128), Answer::trap); // its caller is not known
    know_one_caller(realloc_, kCaller, StackId(8));
    ASSERT_EQ(enter(realloc_, 100, kBlock, 128), Answer::call);
    leave(frame_, kBlock);
    release(kBlock);
    EXPECT_EQ(entry(4).kind, Entry::Kind::allocated);
    EXPECT_EQ(entry(7).kind, Entry::Kind::freed);
    EXPECT_EQ(recorded(), 8U);
}

// The other thread's place in memory is ours for a while.
TEST_F(AgentTest, ABlockThatWasHandedOverHasItsOwnEntries) {
    know_one_caller(malloc_, kCaller, StackId(9));
    stack_[100] = kCaller;
    data_->threads[1] = thread();
    use_ring(data_->threads[1], 1);
    data_->progress[1] = progress();
    std::uint16_t& who = data_->thread_slots[agent::thread_slot(thread().pointer)];
    const auto allocate = [&](unsigned by) {
        who = static_cast<std::uint16_t>(by + 1);
        ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
        leave(frame_, kBlock);
    };
    const auto release = [&](unsigned by) {
        who = static_cast<std::uint16_t>(by + 1);
        ASSERT_EQ(enter(free_, 100, kBlock), Answer::call);
        leave(frame_, 0);
    };
    // The first one's entry must not be taken for the second block there.
    allocate(0);
    release(1);
    allocate(1);
    release(0);
    EXPECT_EQ(data_->wide[0].rings[0][0].kind, Entry::Kind::allocated);
    EXPECT_EQ(data_->wide[0].rings[1][0].kind, Entry::Kind::freed);
    EXPECT_EQ(data_->wide[0].rings[1][1].kind, Entry::Kind::allocated);
    EXPECT_EQ(data_->wide[0].rings[0][1].kind, Entry::Kind::freed);
    allocate(0);
    release(0);
    EXPECT_EQ(data_->wide[0].rings[0][2].kind, Entry::Kind::brief);
    EXPECT_EQ(data_->next_ticket, 5U);
}

TEST_F(AgentTest, ANarrowRingHoldsWhatItHas) {
    thread().ring_parts = agent::kNarrowRingEntries / agent::kRingPart;
    std::uint64_t calls = 0;
    while (enter(free_, 100, kBlock) == Answer::call) {
        leave(frame_, 0);
        ++calls;
    }
    EXPECT_GT(calls, agent::kNarrowRingEntries - agent::kRingPart);
    EXPECT_LE(calls, agent::kNarrowRingEntries);
    EXPECT_EQ(progress().why, agent::Trap::no_room);
    EXPECT_EQ(data_->wide[0].rings[0][agent::kNarrowRingEntries].address, 0U);
    thread().freed_parts = static_cast<std::uint8_t>(calls / agent::kRingPart);
    ASSERT_EQ(enter(free_, 100, kBlock + 16), Answer::call);
    EXPECT_EQ(entry(calls % agent::kNarrowRingEntries).address, kBlock + 16);
}

/// With --check.
class AgentWithBlocks : public AgentTest {
  protected:
    AgentWithBlocks() {
        table_ = static_cast<agent::LiveTable*>(
            mmap(nullptr, sizeof(agent::LiveTable), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        data_->live = reinterpret_cast<std::uint64_t>(table_);
        for (Function* function : {&malloc_, &calloc_, &free_, &realloc_}) {
            function->allocated_by = kC;
            know_one_caller(*function, kCaller, StackId(function->number));
        }
        new_ = malloc_;
        new_.allocated_by = kNew;
        delete_ = free_;
        delete_.allocated_by = kNew;
        stack_[100] = kCaller;
        stack_[90] = kCaller;
    }
    ~AgentWithBlocks() override { munmap(table_, sizeof *table_); }

    void allocate(const Function& function, std::uint64_t block) {
        ASSERT_EQ(enter(function, 100, 64), Answer::call);
        leave(frame_, block);
    }
    Answer release(const Function& function, std::uint64_t block) {
        const Answer answer = enter(function, 100, block);
        if (answer == Answer::call) {
            leave(frame_, 0);
        }
        return answer;
    }

    static constexpr std::uint8_t kC = 1;
    static constexpr std::uint8_t kNew = 2;
    agent::LiveTable* table_;
    Function new_;
    Function delete_;
};

TEST_F(AgentWithBlocks, AFreeOfWhatIsNotLiveTraps) {
    EXPECT_EQ(release(free_, kBlock), Answer::trap);
    EXPECT_EQ(progress().why, agent::Trap::not_live);
    allocate(malloc_, kBlock);
    allocate(malloc_, kBlock + 16);
    EXPECT_EQ(release(free_, kBlock), Answer::call);
    EXPECT_EQ(entry(2).kind, Entry::Kind::freed); // and no brief one: the free has a stack
    EXPECT_EQ(entry(2).stack, free_.number);
    EXPECT_EQ(release(free_, kBlock), Answer::trap);
    EXPECT_EQ(release(free_, kBlock + 8), Answer::trap);
    EXPECT_EQ(release(free_, kBlock + 16), Answer::call);
    EXPECT_EQ(release(free_, 0), Answer::pass);
    EXPECT_EQ(recorded(), 4U);
}

TEST_F(AgentWithBlocks, SoDoesTheWrongFunction) {
    allocate(malloc_, kBlock);
    EXPECT_EQ(release(delete_, kBlock), Answer::trap);
    EXPECT_EQ(release(free_, kBlock), Answer::call);
    allocate(new_, kBlock);
    EXPECT_EQ(release(free_, kBlock), Answer::trap);
    Function unclear = free_;
    unclear.allocated_by = agent::LiveTable::kAnyKind;
    EXPECT_EQ(release(unclear, kBlock), Answer::call);
    EXPECT_EQ(release(unclear, kBlock), Answer::trap);
}

TEST_F(AgentWithBlocks, ReallocTakesTheOldBlock) {
    EXPECT_EQ(enter(realloc_, 100, kBlock, 128), Answer::trap);
    allocate(malloc_, kBlock);
    ASSERT_EQ(enter(realloc_, 100, kBlock, 128), Answer::call);
    leave(frame_, kBlock + 4096);
    EXPECT_EQ(release(free_, kBlock), Answer::trap);
    EXPECT_EQ(release(free_, kBlock + 4096), Answer::call);
}

// What the allocator takes for itself within the call is told of; what it frees is not live.
TEST_F(AgentWithBlocks, CallsWithinACallAreHidden) {
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    Frame outer = frame_;
    ASSERT_EQ(enter(calloc_, 90, 1, 32), Answer::call);
    leave(frame_, kBlock + 64);
    EXPECT_EQ(progress().inside, entry_sp(101));
    leave(outer, kBlock);
    EXPECT_EQ(progress().inside, 0U);
    ASSERT_EQ(recorded(), 2U);
    EXPECT_EQ(entry(0).kind, Entry::Kind::hidden);
    EXPECT_EQ(entry(0).address, kBlock + 64);
    EXPECT_EQ(entry(1).kind, Entry::Kind::allocated);
    EXPECT_EQ(release(free_, kBlock + 64), Answer::trap);
    ASSERT_EQ(enter(malloc_, 100, 64), Answer::call);
    EXPECT_EQ(enter(free_, 90, kBlock), Answer::pass);
    EXPECT_EQ(entry(2).kind, Entry::Kind::inner_free);
    progress().inside = 0;
    EXPECT_EQ(release(free_, kBlock), Answer::trap);
}

// A bucket has room for so many; more blocks there only make some frees trap.
TEST_F(AgentWithBlocks, ABlockThatFindsNoRoomIsNotKnown) {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t block = kBlock; blocks.size() < 12; block += 16) {
        if (agent::LiveTable::bucket(block) == agent::LiveTable::bucket(kBlock)) {
            blocks.push_back(block);
        }
        if (block % 128 == 112) { // far away, in the same bucket
            block += 128ULL * agent::LiveTable::kBuckets - 128;
        }
    }
    for (const std::uint64_t block : blocks) {
        allocate(malloc_, block);
    }
    unsigned known = 0;
    for (const std::uint64_t block : blocks) {
        known += release(free_, block) == Answer::call ? 1 : 0;
        EXPECT_EQ(release(free_, block), Answer::trap);
    }
    EXPECT_EQ(known, agent::LiveTable::kWays);
}

TEST_F(AgentTest, WalksAnewWhereAnyWordThatItHasReadIsAnother) {
    // Two levels: the second one's caller says which stack it is.
    UnwoundStack stack;
    Rule rule = Rule::of(Rule::Kind::regular);
    rule.cfa_base = Rule::CfaBase::sp;
    rule.cfa_offset = 16;
    rule.ra_place = Rule::RaPlace::at_cfa;
    rule.ra_offset = -8;
    const std::vector<Rule> rules{rule, rule, Rule::of(Rule::Kind::outermost)};
    stack.end = StackEnd::outermost;
    for (const std::uint64_t outer : {0x5010, 0x6010}) {
        stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                        FrameAddress::return_address(CodeAddr(kCaller)),
                        FrameAddress::return_address(CodeAddr(outer))};
        ASSERT_TRUE(
            tree_.add(malloc_.number, stack, rules, StackId(static_cast<std::uint32_t>(outer))));
    }
    stack_[100] = kCaller;
    const auto found = [this](std::uint64_t outer) {
        stack_[102] = outer;
        EXPECT_EQ(enter(malloc_, 100, 64), Answer::call);
        leave(frame_, 0);
        return frame_.stack;
    };
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(found(0x5010), 0x5010U);
    }
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(found(0x6010), 0x6010U);
        EXPECT_EQ(found(0x5010), 0x5010U);
    }
    // A stack that is not the tree's any more is not found by what was read in it before.
    tree_.clear();
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap);
    // Nor while the tracer writes a new epoch, by four bytes.
    data_->epoch = 256;
    EXPECT_EQ(enter(malloc_, 100, 64), Answer::trap);
}

// As those of a function's two calls to another one, which allocates.
TEST_F(AgentTest, StacksThatDifferFurtherOutOnlyAreAllKept) {
    constexpr std::size_t kFrames = 30;
    const std::vector<Rule> rules = [] {
        std::vector<Rule> each(kFrames + 2, two_words());
        each.back() = Rule::of(Rule::Kind::outermost);
        return each;
    }();
    constexpr std::uint64_t kOuter = 0x50000;
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    stack.frames.push_back(FrameAddress::exact(CodeAddr(0x1000)));
    for (std::size_t i = 0; i <= kFrames; ++i) {
        stack.frames.push_back(FrameAddress::return_address(CodeAddr(kCaller + 16 * i)));
        stack_[100 + 2 * i] = kCaller + 16 * i;
    }
    for (std::uint32_t which = 0; which < agent::kMemoWays; ++which) {
        stack.frames[kFrames] = FrameAddress::return_address(CodeAddr(kOuter + which));
        ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(which)));
    }
    const auto found = [&](std::uint32_t which) {
        stack_[100 + 2 * (kFrames - 1)] = kOuter + which;
        EXPECT_EQ(enter(malloc_, 100, 64), Answer::call);
        leave(frame_, 0);
        return frame_.stack;
    };
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(found(i % agent::kMemoWays), i % agent::kMemoWays);
    }
    for (agent::Memo& memo : data_->wide[0].memos[0]) {
        memo.stack += 77; // so that it is seen whether it is made use of
    }
    for (std::uint32_t which = 0; which < agent::kMemoWays; ++which) {
        EXPECT_EQ(found(which), which + 77);
    }
}

// Code without frame pointers has anything in that register, and saves it.
TEST_F(AgentTest, WhatIsSavedInAFramePointersPlaceCostsNoWalk) {
    Rule saves = Rule::of(Rule::Kind::regular);
    saves.cfa_offset = 32;
    saves.ra_offset = -8;
    saves.fp_place = Rule::FpPlace::at_cfa;
    saves.fp_offset = -16;
    Rule by_fp = saves;
    by_fp.cfa_base = Rule::CfaBase::fp;
    by_fp.cfa_offset = 16;
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    const auto know = [&](const Rule& innermost, std::uint64_t caller, std::uint64_t outer) {
        stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                        FrameAddress::return_address(CodeAddr(caller)),
                        FrameAddress::return_address(CodeAddr(outer))};
        const std::vector<Rule> rules{Rule::of(Rule::Kind::regular), innermost,
                                      Rule::of(Rule::Kind::outermost)};
        ASSERT_TRUE(
            tree_.add(malloc_.number, stack, rules, StackId(static_cast<std::uint32_t>(outer))));
    };
    know(saves, kCaller, 0x5010);
    know(by_fp, kCaller + 16, 0x6010);
    know(by_fp, kCaller + 16, 0x7010);
    const auto found = [this](std::uint64_t fp) {
        EXPECT_EQ(enter(malloc_, 100, 64, 0, fp), Answer::call);
        leave(frame_, 0);
        return frame_.stack;
    };
    stack_[100] = kCaller;
    stack_[104] = 0x5010;
    EXPECT_EQ(found(1), 0x5010U);
    EXPECT_EQ(found(1), 0x5010U); // kept now
    for (agent::Memo& memo : data_->wide[0].memos[0]) {
        memo.stack = 77;
    }
    stack_[103] = 1234;
    EXPECT_EQ(found(2), 77U);
    // The same with a frame that is found by it.
    stack_[100] = kCaller + 16;
    stack_[111] = 0x6010;
    stack_[121] = 0x7010;
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(found(address(110)), 0x6010U);
    }
    EXPECT_EQ(found(address(120)), 0x7010U);
    EXPECT_EQ(found(address(110)), 0x6010U);
}

TEST_F(AgentTest, AFullTreeIsNoIrregularStack) {
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    const std::vector<Rule> rules{Rule::of(Rule::Kind::regular), Rule::of(Rule::Kind::outermost)};
    const auto add = [&](std::uint64_t caller) {
        stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                        FrameAddress::return_address(CodeAddr(caller))};
        return tree_.add(malloc_.number, stack, rules, StackId(static_cast<std::uint32_t>(caller)));
    };
    std::uint64_t caller = kCaller;
    while (add(caller)) {
        ASSERT_FALSE(tree_.had_no_room());
        ++caller;
    }
    EXPECT_TRUE(tree_.had_no_room());
    EXPECT_GT(tree_.size(), 100'000U);
    // All that there is can be forgotten.
    tree_.clear();
    for (std::uint32_t slot = 0; slot < agent::kChildSlots; ++slot) {
        ASSERT_EQ(data_->children[slot], 0U);
    }
    EXPECT_TRUE(add(kCaller));
    EXPECT_FALSE(tree_.had_no_room());
}

// Each dlopen begins the tree anew.
TEST_F(AgentTest, NodesAreUsedAgain) {
    constexpr std::uint64_t kFrames = 10'000;
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000))};
    const Rule rule = two_words();
    std::vector<Rule> rules{rule};
    for (std::uint64_t i = 0; i < kFrames; ++i) {
        stack.frames.push_back(FrameAddress::return_address(CodeAddr(kCaller + 16 * i)));
        rules.push_back(rule);
    }
    rules.back() = Rule::of(Rule::Kind::outermost);
    for (std::uint64_t nodes = 0; nodes < agent::kMaxNodes; nodes += kFrames) {
        ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(1)));
        tree_.clear();
    }
    EXPECT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(1)));
}

/// What is to happen when the agent reads a page that it may not.
std::function<void()>* on_fault;

// A walk that was under way when its nodes became another stack's ends nowhere. Of two stacks that
// differ in the innermost frame only, the one takes the other's place while half of it is walked:
// the page with the other half may not be read before that.
TEST_F(AgentTest, AWalkDoesNotGoOnInAnotherStack) {
    constexpr std::size_t kPage = 65536; // as large as they are anywhere
    constexpr std::size_t kFrames = 60;
    auto* memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto* words = reinterpret_cast<std::uint64_t*>(memory + kPage) - kFrames;
    thread().stack_begin = reinterpret_cast<std::uint64_t>(memory);
    thread().stack_end = thread().stack_begin + 2 * kPage;

    const Rule rule = two_words();
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000))};
    std::vector<Rule> rules(kFrames + 1, rule);
    rules.back() = Rule::of(Rule::Kind::outermost);
    for (std::size_t i = 0; i < kFrames; ++i) {
        words[2 * i] = kCaller + 16 * i;
        stack.frames.push_back(FrameAddress::return_address(CodeAddr(words[2 * i])));
    }
    UnwoundStack other = stack;
    other.frames[1] = FrameAddress::return_address(CodeAddr(0x9010));
    const auto call = [&] {
        frame_ = {};
        return agent::memleax_agent_enter(
            &malloc_, &frame_, reinterpret_cast<std::uint64_t>(words + 1) - arch::kAgentEntryBytes,
            0, words[0]);
    };
    ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(1)));
    ASSERT_EQ(call(), Answer::call);
    EXPECT_EQ(frame_.stack, 1U);
    progress().inside = 0;

    int faults = 0;
    std::function<void()> exchange = [&] {
        ++faults;
        mprotect(memory + kPage, kPage, PROT_READ);
        tree_.clear();
        if (!tree_.add(malloc_.number, other, rules, StackId(2))) {
            std::abort();
        }
    };
    on_fault = &exchange;
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { (*on_fault)(); };
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
    data_->progress[0].forced_stack = agent::kNoStackId;
    mprotect(memory + kPage, kPage, PROT_NONE);
    EXPECT_EQ(call(), Answer::trap);
    sigaction(SIGSEGV, &before, nullptr);
    EXPECT_EQ(faults, 1);
    munmap(memory, 2 * kPage);
}

TEST_F(AgentTest, AFullRingTraps) {
    stack_[100] = kCaller;
    std::uint64_t calls = 0;
    while (enter(free_, 100, kBlock) == Answer::call) {
        leave(frame_, 0);
        ++calls;
        ASSERT_LE(calls, agent::kRingEntries);
    }
    EXPECT_GT(calls, agent::kRingEntries - agent::kRingPart);
    EXPECT_EQ(recorded(), calls);
    // The consumer has read the first part; the counter goes round.
    for (unsigned round = 0; round < 600; ++round) {
        ++thread().freed_parts;
        std::uint64_t more = 0;
        while (enter(free_, 100, kBlock) == Answer::call) {
            leave(frame_, 0);
            ++more;
        }
        ASSERT_EQ(more, agent::kRingPart) << round;
    }
}

/// A made-up program: each place that is called from has one rule; stacks of it are laid out in
/// memory, and the agent has to find each by its own id.
TEST_F(AgentTest, FindsEveryStackThatTheTreeKnows) {
    std::mt19937 random(1);
    const auto below = [&random](std::uint64_t n) { return random() % n; };
    struct Place {
        std::uint64_t pc;
        Rule rule;
    };
    std::vector<Place> places;
    for (std::uint64_t i = 0; i < 60; ++i) {
        Rule rule = Rule::of(i < 3 ? Rule::Kind::outermost : Rule::Kind::regular);
        rule.ra_offset = -8;
        rule.cfa_offset = static_cast<std::int32_t>(16 + 8 * below(6));
        if (i % 3 == 0) { // keeps a frame pointer
            rule.cfa_base = Rule::CfaBase::fp;
            rule.cfa_offset = 16;
            rule.fp_place = Rule::FpPlace::at_cfa;
            rule.fp_offset = -16;
            if (i % 2 == 0 && rule.kind == Rule::Kind::regular) { // and has no table
                rule.kind = Rule::Kind::frame_pointer;
            }
        } else if (i % 3 == 1) { // saves the register
            rule.fp_place = Rule::FpPlace::at_cfa;
            rule.fp_offset = -16;
        }
        places.push_back({0x400000 + i * 64, rule});
    }
    struct Made {
        std::vector<std::size_t> path; ///< places, the caller first
        std::size_t entry = 0;
        std::uint64_t fp = 0;
    };
    // From the outermost frame inwards: what a prologue does.
    const auto lay_out = [&](const Made& made) {
        std::size_t sp = stack_.size() - 1 - below(8);
        std::uint64_t fp = random(); // nobody's
        for (std::size_t i = made.path.size(); i-- > 0;) {
            const Place& place = places[made.path[i]];
            if (place.rule.kind != Rule::Kind::outermost) {
                const std::size_t cfa = sp + 1; // behind the return address
                if (place.rule.cfa_base == Rule::CfaBase::fp) {
                    stack_[cfa - 2] = fp;
                    fp = address(cfa - 2);
                    sp = cfa - 2 - below(5);
                } else {
                    if (place.rule.fp_place == Rule::FpPlace::at_cfa) {
                        stack_[cfa - 2] = fp;
                        fp = random();
                    }
                    sp = cfa - static_cast<std::size_t>(place.rule.cfa_offset) / 8;
                }
            }
            stack_[--sp] = place.pc; // it calls
        }
        Made result = made;
        result.entry = sp;
        result.fp = fp;
        return result;
    };
    std::map<std::vector<std::size_t>, StackId> ids;
    std::vector<std::vector<std::size_t>> paths;
    for (unsigned i = 0; i < 400; ++i) {
        std::vector<std::size_t> path;
        for (std::uint64_t depth = below(20); depth > 0; --depth) {
            path.push_back(3 + below(places.size() - 3));
        }
        path.push_back(below(3));
        if (ids.emplace(path, StackId(static_cast<std::uint32_t>(ids.size()))).second) {
            paths.push_back(path);
        }
    }
    for (const auto& path : paths) {
        Made made = lay_out({path});
        ASSERT_EQ(enter(malloc_, made.entry, 8, 0, made.fp), Answer::trap);
        UnwoundStack stack;
        stack.frames.push_back(FrameAddress::exact(CodeAddr(0x1000)));
        std::vector<Rule> rules{Rule::of(Rule::Kind::regular)};
        for (const std::size_t place : path) {
            stack.frames.push_back(FrameAddress::return_address(CodeAddr(places[place].pc)));
            rules.push_back(places[place].rule);
        }
        ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, ids.at(path)));
    }
    for (unsigned i = 0; i < 4000; ++i) {
        const auto& path = paths[below(paths.size())];
        const Made made = lay_out({path});
        ASSERT_EQ(enter(malloc_, made.entry, 8, 0, made.fp), Answer::call);
        EXPECT_EQ(frame_.stack, ids.at(path).value());
        leave(frame_, kBlock);
        thread().freed_parts = static_cast<std::uint8_t>(progress().head / agent::kRingPart);
    }
    tree_.clear();
    const Made made = lay_out({paths[0]});
    EXPECT_EQ(enter(malloc_, made.entry, 8, 0, made.fp), Answer::trap);
}

// As the tracer's walk does, which ends there.
TEST_F(AgentTest, WhatIsNoFramePointerLeadsToNoCaller) {
    constexpr std::uint64_t kGenerated = 0x700000;
    UnwoundStack stack;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                    FrameAddress::return_address(CodeAddr(kGenerated)),
                    FrameAddress::return_address(CodeAddr(kCaller))};
    stack.end = StackEnd::limit;
    const std::array rules{Rule::of(Rule::Kind::regular), Rule::of(Rule::Kind::frame_pointer),
                           Rule::of(Rule::Kind::regular)};
    ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(5)));
    std::fill(stack_.begin(), stack_.end(), kCaller); // wherever it leads to
    stack_[100] = kGenerated;
    ASSERT_EQ(enter(malloc_, 100, 8, 0, address(104)), Answer::call);
    EXPECT_EQ(frame_.stack, 5U);
    leave(frame_, kBlock);
    EXPECT_EQ(enter(malloc_, 100, 8, 0, address(104) + 4), Answer::trap);
    EXPECT_EQ(enter(malloc_, 100, 8, 0, address(99)), Answer::trap) << "below the frame";
    EXPECT_EQ(enter(malloc_, 100, 8, 0, 0), Answer::trap);
    EXPECT_TRUE(is_plausible_frame_pointer(address(104), address(104)));
    EXPECT_TRUE(is_plausible_frame_pointer(address(104) + kFramePointerReach - 8, address(104)));
    EXPECT_FALSE(is_plausible_frame_pointer(address(104) + kFramePointerReach, address(104)));
}

// A compiler's code may keep anything in that register: there the tracer's walk ends, each time.
TEST_F(AgentTest, AStackEndsWhereTheFramePointerIsNone) {
    constexpr std::uint64_t kGenerated = 0x700000;
    const std::array rules{Rule::of(Rule::Kind::regular), Rule::of(Rule::Kind::frame_pointer)};
    UnwoundStack stack;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                    FrameAddress::return_address(CodeAddr(kGenerated))};
    stack.end = StackEnd::no_rule;
    stack_[100] = kGenerated;
    ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(6)));
    EXPECT_EQ(enter(malloc_, 100, 8, 0, 0), Answer::trap) << "a null pointer is another end";
    stack.end = StackEnd::outermost;
    ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(7)));
    const auto found = [&](std::uint64_t fp) {
        EXPECT_EQ(enter(malloc_, 100, 8, 0, fp), Answer::call);
        leave(frame_, kBlock);
        return frame_.stack;
    };
    for (unsigned i = 0; i < 3; ++i) { // by a walk, and by the memo
        EXPECT_EQ(found(0x12345), 6U);
        EXPECT_EQ(found(address(99)), 6U) << "below the frame";
        EXPECT_EQ(found(address(104) + 4), 6U) << "not aligned";
        EXPECT_EQ(found(0), 7U);
    }
    stack_[105] = kCaller;
    EXPECT_EQ(enter(malloc_, 100, 8, 0, address(104)), Answer::trap) << "it could be one";
}

// What a table or the frame pointer leads to is old data: known word by word.
TEST_F(AgentTest, AStackEndsAtWhatIsNoCode) {
    constexpr std::uint64_t kGenerated = 0x700000;
    constexpr std::uint64_t kData = 0xc000026000;
    const Rule rule = two_words();
    UnwoundStack stack;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                    FrameAddress::return_address(CodeAddr(kCaller))};
    stack.end = StackEnd::not_code;
    stack.no_code = kData;
    ASSERT_TRUE(tree_.add(malloc_.number, stack, std::array{rule, rule}, StackId(8)));
    stack.frames.back() = FrameAddress::return_address(CodeAddr(kGenerated));
    stack.end = StackEnd::no_rule;
    stack.guess_led_nowhere = true;
    const std::array by_frame_pointer{rule, Rule::of(Rule::Kind::frame_pointer)};
    ASSERT_TRUE(tree_.add(malloc_.number, stack, by_frame_pointer, StackId(9)));

    stack_[100] = kCaller;
    stack_[102] = kData;
    EXPECT_EQ(enter(malloc_, 100, 8), Answer::call);
    EXPECT_EQ(frame_.stack, 8U);
    leave(frame_, kBlock);
    stack_[102] = kData + 8;
    EXPECT_EQ(enter(malloc_, 100, 8), Answer::trap);
    stack_[100] = kGenerated;
    stack_[105] = kData;
    EXPECT_EQ(enter(malloc_, 100, 8, 0, address(104)), Answer::call);
    EXPECT_EQ(frame_.stack, 9U);
    leave(frame_, kBlock);
    stack_[105] = kData + 8;
    EXPECT_EQ(enter(malloc_, 100, 8, 0, address(104)), Answer::trap);

    EXPECT_TRUE(tree_.has_stray([](std::uint64_t word) { return word == kData; }));
    EXPECT_FALSE(tree_.has_stray([](std::uint64_t word) { return word != kData; }));
    tree_.clear();
    EXPECT_FALSE(tree_.has_stray([](std::uint64_t) { return true; }));
}

TEST_F(AgentTest, WhatIsNoCodeDoesNotTakeAllRoom) {
    const Rule rule = two_words();
    UnwoundStack stack;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000)),
                    FrameAddress::return_address(CodeAddr(kCaller))};
    stack.end = StackEnd::not_code;
    const auto add = [&](std::uint64_t word) {
        stack.no_code = word;
        return tree_.add(malloc_.number, stack, std::array{rule, rule}, StackId(1));
    };
    std::uint64_t word = 8;
    while (add(word)) {
        ASSERT_LT(tree_.size(), 10'000U);
        word += 8;
    }
    EXPECT_FALSE(tree_.had_no_room());
    EXPECT_TRUE(add(8)) << "it has its place";
    stack.frames.back() = FrameAddress::return_address(CodeAddr(kCaller + 64));
    EXPECT_TRUE(add(word)) << "another caller's";
}

TEST_F(AgentTest, NeverReadsBesideTheStack) {
    // Rules that lead anywhere: behind the stack's end there is nothing.
    const auto page = static_cast<std::size_t>(4096);
    auto* memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + page, page, PROT_NONE);
    auto* words = reinterpret_cast<std::uint64_t*>(memory);
    const std::size_t count = page / 8;
    std::fill_n(words, count, kCaller);
    thread().stack_begin = reinterpret_cast<std::uint64_t>(memory);
    thread().stack_end = thread().stack_begin + page;
    for (const auto base : {Rule::CfaBase::sp, Rule::CfaBase::fp, Rule::CfaBase::at_fp}) {
        for (const std::int32_t offset : {-4096, -8, 0, 1, 8, 16, 4096, 1 << 30}) {
            tree_.clear();
            Rule rule = Rule::of(Rule::Kind::regular);
            rule.cfa_base = base;
            rule.cfa_offset = offset;
            rule.ra_offset = -8;
            rule.fp_place = Rule::FpPlace::at_fp;
            rule.fp_offset = offset;
            UnwoundStack stack;
            stack.frames = {FrameAddress::exact(CodeAddr(0x1000))};
            std::vector<Rule> rules{rule};
            for (unsigned i = 0; i < 40; ++i) {
                stack.frames.push_back(FrameAddress::return_address(CodeAddr(kCaller)));
                rules.push_back(rule);
            }
            stack.end = StackEnd::limit;
            ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(1)));
            for (std::size_t at = 0; at < count; at += 7) {
                for (const std::uint64_t fp :
                     {std::uint64_t{0}, thread().stack_end - 8, thread().stack_end,
                      thread().stack_begin, ~std::uint64_t{7}}) {
                    frame_ = {};
                    arch::agent_argument(frame_.registers, 0) = 8;
                    progress().inside = 0;
                    (void)agent::memleax_agent_enter(&malloc_, &frame_,
                                                     reinterpret_cast<std::uint64_t>(words + at),
                                                     fp, kCaller);
                }
            }
        }
    }
    munmap(memory, 2 * page);
}

// Memos are the target's to write to, and a stack's end is not where it was for good.
TEST_F(AgentTest, AMemoLeadsToNothingBesideTheStack) {
    constexpr std::size_t kPage = 65536;
    auto* memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + kPage, kPage, PROT_NONE);
    constexpr std::size_t kWords = 6; // from the call on
    auto* words = reinterpret_cast<std::uint64_t*>(memory + kPage) - kWords;
    thread().stack_begin = reinterpret_cast<std::uint64_t>(memory);
    thread().stack_end = thread().stack_begin + kPage;
    const std::vector<Rule> rules{two_words(), two_words(), two_words(),
                                  Rule::of(Rule::Kind::outermost)};
    UnwoundStack stack;
    stack.end = StackEnd::outermost;
    stack.frames = {FrameAddress::exact(CodeAddr(0x1000))};
    for (std::size_t i = 0; i < 3; ++i) {
        words[2 * i] = kCaller + 16 * i;
        stack.frames.push_back(FrameAddress::return_address(CodeAddr(words[2 * i])));
    }
    ASSERT_TRUE(tree_.add(malloc_.number, stack, rules, StackId(5)));
    const auto call = [&] {
        frame_ = {};
        progress().inside = 0;
        return agent::memleax_agent_enter(
            &malloc_, &frame_, reinterpret_cast<std::uint64_t>(words + 1) - arch::kAgentEntryBytes,
            0, words[0]);
    };
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(call(), Answer::call);
        ASSERT_EQ(frame_.stack, 5U);
    }
    std::size_t written = 0;
    for (agent::Memo& memo : data_->wide[0].memos[0]) {
        if (memo.epoch != 0) {
            ++written;
            memo.stack = 77; // so that it is seen whether it is made use of
        }
    }
    ASSERT_EQ(written, 1U);
    ASSERT_EQ(call(), Answer::call);
    EXPECT_EQ(frame_.stack, 77U);
    // The last word that was read is not on the stack any more; the one that is last now is the
    // same.
    words[3] = words[4];
    thread().stack_end -= 2 * sizeof(std::uint64_t);
    EXPECT_EQ(call(), Answer::trap);
    thread().stack_end += 2 * sizeof(std::uint64_t);
    for (const std::uint32_t place : {0x10000U, 0x7ffffff8U, 0xffffffffU}) {
        for (agent::Memo& memo : data_->wide[0].memos[0]) {
            std::fill(std::begin(memo.places), std::end(memo.places), place);
            memo.count = agent::Memo::kWords;
        }
        (void)call(); // and nothing faults
    }
    munmap(memory, 2 * kPage);
}

} // namespace
} // namespace memleax
