// SPDX-License-Identifier: GPL-3.0-or-later
// The account of one process between two threads: the tracer writes, the main thread reads and
// looks names up. Under ThreadSanitizer (the preset "tsan") what is not locked is reported.
#include "memleax/session/process_account.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "elf_support.hpp"

namespace memleax {
namespace {

/// What is called is looked up by this name.
extern "C" [[gnu::noinline, gnu::used]] int process_account_test_function() {
    return 1;
}

class ProcessAccountTest : public ::testing::Test {
  protected:
    /// All that a tracer tells of a process, from its begin to its end.
    void tell() {
        test::OwnMemory memory;
        ModuleMap map(test::own_pid(), memory);
        account_.on_program({.executable = "/bin/program", .comm = "program", .engine = "int3"});
        account_.on_watching(3);
        constexpr int kRounds = 20;
        for (int i = 1; i <= kRounds; ++i) {
            map.forget_all();
            ASSERT_TRUE(map.refresh());
            account_.on_modules(map);
            account_.tracker().on_generation(map.generation());
            const CodeAddr pc(reinterpret_cast<std::uint64_t>(&process_account_test_function));
            const std::vector frames{FrameAddress::exact(pc)};
            const AllocationEvent event{
                .kind = EventKind::alloc,
                .tid = Tid(1),
                .address = RemoteAddr(static_cast<std::uint64_t>(i) * 64),
                .size = 32,
                .old_address = {},
                .stack = account_.account().stacks.intern(frames, StackEnd::outermost),
                .time = MonotonicNs(i)};
            account_.tracker().on_event(event);
        }
        account_.on_ended(0);
        ended_ = true;
    }

    std::atomic<bool> ended_{false};
    ProcessAccounts accounts_{{.memory_block_max = 0, .call_stack_max = 0}, ""};
    ProcessAccount& account_ = accounts_.add(test::own_pid(), Tid(0));
};

TEST_F(ProcessAccountTest, OneThreadWritesAnotherReads) {
    std::thread tracer([this] { tell(); });
    std::size_t resolved = 0;
    for (bool over = false; !over;) {
        over = ended_;
        const ProcessFacts facts = account_.facts();
        EXPECT_EQ(facts.comm.empty(), facts.executable.empty());
        EXPECT_EQ(account_.pid(), test::own_pid());
        EXPECT_EQ(accounts_.all().size(), 1U);
        accounts_.set_expire_ns(1);
        for (const StackSnapshot& stack : account_.tracker().snapshot(MonotonicNs(100)).stacks) {
            const Backtrace backtrace = account_.names().resolve(stack.id);
            ASSERT_FALSE(backtrace.machine_frames().empty());
            EXPECT_EQ(backtrace.begin()->function, "process_account_test_function");
            ++resolved;
        }
    }
    tracer.join();
    EXPECT_GT(resolved, 0U);
    const ProcessFacts facts = account_.facts();
    EXPECT_EQ(facts.executable, "/bin/program");
    EXPECT_EQ(facts.threads, 3U);
    EXPECT_EQ(facts.status, 0);
    ASSERT_TRUE(facts.ended);
    EXPECT_EQ(account_.time(MonotonicNs(facts.ended->value() + 1)), *facts.ended);
    EXPECT_TRUE(account_.has_been_watched());
}

} // namespace
} // namespace memleax
