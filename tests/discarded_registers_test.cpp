// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that computes with registers that a system call discards (arm64: SVE, SME) has them
// again after a call of ours, also if we die in it. scripts/test-arm64.sh has a CPU with them.
#include <csignal>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/engine/leave/borrowed_thread.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

struct Case {
    const char* name;
    std::size_t set; ///< of arch::kDiscardedRegsets
    std::vector<std::string> arguments;
};
void PrintTo(const Case& each, std::ostream* out) {
    *out << each.name;
}
const Case kScalable{"Scalable", 0, {"sve"}};
/// A signal frame has no room for them.
const Case kLong{"Long", 0, {"sve", "256"}};
const Case kStreaming{"Streaming", 1, {"streaming"}};

bool machine_has(std::size_t set) {
    const std::span<const arch::DiscardedRegset> sets(arch::kDiscardedRegsets);
    return set < sets.size() && (getauxval(sets[set].entry) & sets[set].capability) != 0;
}

/// Stops the first thread where it has something to lose. The fixture asks for its next line
/// between two rounds, and has nothing there.
void stop_while_it_computes(Target& target) {
    const Tid tid = target.pid();
    DiscardedRegisters discarded{};
    for (;;) {
        ASSERT_TRUE(target.stop_and_defer(tid));
        StoppedThread(tid).get_discarded(&discarded);
        if (discarded.set != 0) {
            return;
        }
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        target.resume(tid);
    }
}

class DiscardedRegistersTest : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (!machine_has(GetParam().set)) {
            GTEST_SKIP() << "this machine has no such registers";
        }
    }
    /// While the fixture computes.
    template <class Test> static void run(const Test& test) {
        Fixture fixture("scalable_registers", GetParam().arguments);
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        test(Tid(fixture.pid()));
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
    /// On a thread, with whose end the process is let go of.
    template <class Test> static void trace(Tid pid, const Test& test) {
        std::thread([&] {
            Tracer tracer(nullptr);
            const auto record = RecoveryFile::private_record();
            auto target = Target::seize(tracer, pid, record);
            ASSERT_TRUE(target) << target.error().message();
            ASSERT_NO_FATAL_FAILURE(stop_while_it_computes(**target));
            test(**target, *record);
        }).join();
    }
};

TEST_P(DiscardedRegistersTest, AreThereAgainAfterACall) {
    run([](Tid pid) {
        for (int round = 0; round < 10; ++round) {
            trace(pid, [pid](Target& target, RecoveryRecord& /*record*/) {
                const auto mapped =
                    target.system_call(pid, SYS_mmap,
                                       {0, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
                                        static_cast<std::uint64_t>(-1), 0});
                ASSERT_TRUE(mapped) << mapped.error().message();
                const auto unmapped =
                    target.system_call(pid, SYS_munmap, {static_cast<std::uint64_t>(*mapped), 1});
                ASSERT_TRUE(unmapped) << unmapped.error().message();
                EXPECT_EQ(*unmapped, 0);
                DiscardedRegisters discarded{};
                StoppedThread(pid).get_discarded(&discarded);
                EXPECT_NE(discarded.set, 0);
            });
        }
    });
}

// The guardian finds it in our code, where nothing has happened to its general registers yet.
TEST_P(DiscardedRegistersTest, AreGivenBackByTheGuardian) {
    run([](Tid pid) {
        trace(pid, [pid](Target& target, RecoveryRecord& record) {
            const StoppedThread thread(pid);
            RecoveryRecord::BorrowedThread& borrowed = record.borrowed;
            ASSERT_TRUE(thread.get_registers(&borrowed.registers));
            thread.get_discarded(&borrowed.discarded);
            borrowed.number = SYS_munmap;
            borrowed.code = AddrRange::at(arch::pc(borrowed.registers).as_data(), 1);
            borrowed.tid.store(pid.value());
            DiscardedRegisters others = borrowed.discarded;
            constexpr std::size_t kHeaderBytes = 16;
            std::fill(others.bytes.begin() + kHeaderBytes, others.bytes.end(), std::byte{0});
            ASSERT_TRUE(thread.set_discarded(others));
            EXPECT_EQ(return_borrowed_thread(target), pid);
        });
    });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DiscardedRegistersTest,
                         ::testing::Values(kScalable, kLong, kStreaming),
                         [](const auto& instance) { return instance.param.name; });

class DiscardedRegistersWayBackTest : public DiscardedRegistersTest {};

TEST_P(DiscardedRegistersWayBackTest, IsFoundByTheThreadAlone) {
    run([](Tid pid) {
        const pid_t tracer = fork();
        if (tracer == 0) {
            trace(pid, [pid](Target& target, RecoveryRecord& /*record*/) {
                const auto self = static_cast<std::uint64_t>(getpid());
                (void)target.system_call(pid, SYS_kill, {self, SIGKILL});
            });
            _exit(1);
        }
        int status = 0;
        EXPECT_EQ(waitpid(tracer, &status, 0), tracer);
        EXPECT_EQ(status, SIGKILL);
    });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DiscardedRegistersWayBackTest,
                         ::testing::Values(kScalable, kStreaming),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace memleax::testing
