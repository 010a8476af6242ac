// SPDX-License-Identifier: GPL-3.0-or-later
// What the guardian says of a process that it cannot put back, and what it leaves alone in one that
// is not what the record tells of any more.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch.hpp"
#include "filter_support.hpp"
#include "forked_test_support.hpp"
#include "memleax/engine/recovery.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/remote_memory.hpp"
#include "sanitizer_support.hpp"

namespace memleax {
namespace {

/// Nothing else has ended it.
void expect_end_by(pid_t pid, int signal) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
}

/// One that waits for a signal, and its record.
class Orphaned {
  public:
    Orphaned() : Orphaned([] {}) {}
    /// One that begins with this.
    template <typename Begin> explicit Orphaned(const Begin& begin) : pid_(fork()) {
        if (pid_ == 0) {
            begin();
            for (;;) {
                pause();
            }
        }
        record_->pid.store(pid_);
        record_->start_time = try_read_process_info(Tid(pid_)).value_or(ProcessInfo()).start_time;
    }
    Orphaned(const Orphaned&) = delete;
    Orphaned& operator=(const Orphaned&) = delete;
    ~Orphaned() {
        if (kill(pid_, SIGKILL) == 0) { // or it has been reaped
            expect_end_by(pid_, signal_);
        }
    }

    void end_by(int signal) {
        signal_ = signal;
        kill(pid_, signal);
        siginfo_t info{};
        waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    }
    [[nodiscard]] std::string problem() const {
        const auto restored = restore_process(record_);
        return restored ? "" : restored.error().message();
    }
    [[nodiscard]] int pid() const { return pid_; }
    [[nodiscard]] RecoveryRecord& record() const { return *record_; }
    [[nodiscard]] std::shared_ptr<RecoveryRecord> shared_record() const { return record_; }

  private:
    int pid_;
    int signal_ = SIGKILL; ///< that ends it
    std::shared_ptr<RecoveryRecord> record_ = RecoveryFile::private_record();
};

TEST(RestoredProcess, HasEndedAndHow) {
    Orphaned process;
    process.end_by(SIGTRAP);
    EXPECT_EQ(process.problem(),
              fmt::format("process {} has ended: killed by signal 5", process.pid()));
}

TEST(RestoredProcess, IsAnotherOneByNow) {
    Orphaned process;
    process.end_by(SIGTRAP);
    ++process.record().start_time;
    EXPECT_EQ(process.problem(), fmt::format("process {} has ended", process.pid()));
}

TEST(RestoredProcess, HasEndedAndBeenReaped) {
    Orphaned process;
    process.end_by(SIGTRAP);
    waitpid(process.pid(), nullptr, 0);
    EXPECT_EQ(process.problem(), fmt::format("process {} has ended", process.pid()));
}

/// Mapped in a process that is forked later, where a record says that pages of ours are.
class Pages {
  public:
    static constexpr std::size_t kBytes = arch::kWayBackDataAt + arch::kWayBackDataBytes;

    Pages()
        : at_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        // Of the agent's data, this would be "enabled".
        std::memset(at_, 1, kBytes);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() { munmap(at_, kBytes); }

    void hold_handler() {
        const auto code = arch::trap_handler_code().code;
        std::memset(at_, 0, kBytes);
        std::memcpy(at_, code.data(), code.size());
        mprotect(at_, arch::kWayBackDataAt, PROT_READ | PROT_EXEC);
    }
    template <typename Object> void hold(const Object& object) {
        std::memcpy(at_, &object, sizeof object);
    }
    void be_code() { mprotect(at_, kBytes, PROT_READ | PROT_EXEC); }
    void be_wiped() { madvise(at_, kBytes, MADV_WIPEONFORK); }

    [[nodiscard]] AddrRange range() const {
        return AddrRange::at(RemoteAddr(reinterpret_cast<std::uint64_t>(at_)), kBytes);
    }
    [[nodiscard]] bool is_mapped_in(Tid pid) const {
        const auto mappings = read_maps(pid);
        return mappings &&
               std::any_of(mappings->begin(), mappings->end(),
                           [this](const auto& each) { return each.range.overlaps(range()); });
    }
    [[nodiscard]] bool is_untouched_in(Tid pid) const {
        auto memory = RemoteMemory::open(pid);
        std::array<std::byte, kBytes> there{};
        return memory && memory->try_read_unmasked(range().start(), there) == there.size() &&
               std::all_of(there.begin(), there.end(),
                           [](std::byte b) { return b == std::byte{1}; });
    }

  private:
    void* at_;
};

/// Where a record tells of a handler, a region, and the agent's code and data.
struct AllPages {
    Pages handler, region, code, data;

    void tell(RecoveryRecord* record) const {
        record->set_handler(handler.range());
        ASSERT_TRUE(record->add_region(region.range()));
        ASSERT_TRUE(record->add_agent_code(code.range()));
        ASSERT_TRUE(record->add_agent_data(data.range()));
    }
};

TEST(RestoredProcess, KeepsWhatItHasWhereOursWasBeforeAnExec) {
    const AllPages pages; // of another program
    const Orphaned process;
    pages.tell(&process.record());
    EXPECT_TRUE(restore_code(process.record()));
    EXPECT_EQ(process.problem(), "");
    for (const Pages* each : {&pages.handler, &pages.region, &pages.code, &pages.data}) {
        EXPECT_TRUE(each->is_untouched_in(Tid(process.pid())));
    }
}

TEST(RestoredProcess, HasItsMaskBackAfterAnExec) {
    const AllPages pages;
    const Orphaned process;
    const Tid pid(process.pid());
    pages.tell(&process.record());
    constexpr std::uint64_t kTrap = signal_bit(SIGTRAP);
    const std::uint64_t blocked =
        try_read_process_info(pid).value_or(ProcessInfo()).blocked_signals;
    process.record().set_blocking(pid, blocked | kTrap, true);
    EXPECT_EQ(process.problem(), "");
    EXPECT_EQ(try_read_process_info(pid).value_or(ProcessInfo()).blocked_signals, blocked | kTrap);
}

// It was told to unmap them, and has, but for that of the handler.
TEST(RestoredProcess, KeepsWhatAForkedChildHasWhereOursWas) {
    AllPages pages;
    pages.handler.hold_handler();
    const Orphaned process;
    pages.tell(&process.record());
    const auto copy = process.record().copy_for(process.pid(), process.record().start_time);
    const auto restored = restore_process(copy);
    EXPECT_TRUE(restored) << restored.error().message();
    for (const Pages* each : {&pages.region, &pages.code, &pages.data}) {
        EXPECT_TRUE(each->is_untouched_in(Tid(process.pid())));
    }
    EXPECT_FALSE(pages.handler.is_mapped_in(Tid(process.pid())));
}

TEST(RestoredProcess, LosesWhatIsOursInAForkedChild) {
    AllPages pages;
    pages.handler.hold_handler();
    pages.region.be_code();
    pages.code.be_code();
    pages.data.be_wiped();
    const Orphaned process;
    pages.tell(&process.record());
    const auto copy = process.record().copy_for(process.pid(), process.record().start_time);
    const auto restored = restore_process(copy);
    EXPECT_TRUE(restored) << restored.error().message();
    for (const Pages* each : {&pages.handler, &pages.region, &pages.code, &pages.data}) {
        EXPECT_FALSE(each->is_mapped_in(Tid(process.pid())));
    }
}

// Whoever lowers it in a child notes that nowhere, and may die before the child's pages are gone.
TEST(RestoredProcess, ASemaphoreOfAForkedChildIsLoweredOnce) {
    AllPages pages;
    pages.handler.hold_handler();
    Pages semaphores;
    constexpr std::uint16_t kBefore = 1; // a tracer's
    const std::array<std::uint16_t, 2> there{kBefore, kBefore + 1};
    semaphores.hold(there);
    const Orphaned process;
    pages.tell(&process.record());
    for (std::size_t i = 0; i < there.size(); ++i) {
        RecoveryRecord::Counter& counter = process.record().counters.at(i);
        counter.address = semaphores.range().begin + i * sizeof there[0];
        counter.before = kBefore;
        counter.step.store(RecoveryRecord::Counter::Step::raised);
    }
    const auto copy = process.record().copy_for(process.pid(), process.record().start_time);
    EXPECT_TRUE(restore_process(copy));
    auto memory = RemoteMemory::open(Tid(process.pid()));
    ASSERT_TRUE(memory);
    const auto now =
        memory->try_read_object<std::array<std::uint16_t, 2>>(semaphores.range().start());
    EXPECT_EQ(now, (std::array<std::uint16_t, 2>{kBefore, kBefore}));
}

// A control group may have no room for a thread.
TEST(RestoredProcess, NeedsNoThreadOfTheGuardians) {
    EXPECT_TRUE(testing::in_child([] {
        AllPages pages;
        pages.handler.hold_handler();
        const std::array<Orphaned, 2> processes;
        for (const Orphaned& each : processes) {
            pages.tell(&each.record());
        }
        ASSERT_TRUE(testing::forbid_threads());
        for (const Orphaned& each : processes) {
            EXPECT_EQ(each.problem(), "");
            EXPECT_FALSE(pages.handler.is_mapped_in(Tid(each.pid())));
        }
    }));
}

// A record has room for a million breakpoints, 76 MB of addresses, and a guardian may have as few
// as we had.
TEST(RestoredProcess, TakesNoMoreAddressesThanItsBreakpoints) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    const auto ours = RecoveryFile::create();
    ASSERT_TRUE(ours) << ours.error().message();
    const auto guardians = RecoveryFile::open(dup((*ours)->fd()));
    ASSERT_TRUE(guardians) << guardians.error().message();
    std::vector<std::shared_ptr<RecoveryRecord>> records;
    constexpr std::uint32_t kBreakpoints = 1000;
    for (int i = 0; i < 4; ++i) {
        records.push_back((*ours)->claim());
        records.back()->pid.store(7 + i);
        records.back()->breakpoints[kBreakpoints - 1].slot = 77;
        records.back()->breakpoint_count.store(kBreakpoints);
    }
    EXPECT_TRUE(testing::in_child([&] {
        testing::limit_addresses(32 << 20);
        const auto seen = (*guardians)->in_use();
        ASSERT_EQ(seen.size(), records.size());
        for (const auto& record : seen) {
            EXPECT_EQ(record->breakpoints[kBreakpoints - 1].slot, 77U);
            const auto copy = record->copy_for(99, 1000);
            EXPECT_EQ(copy->breakpoints[kBreakpoints - 1].slot, 77U);
            EXPECT_FALSE(copy->add_breakpoint({}, {}, std::nullopt, false));
        }
    }));
}

// Of the first one's record there is no memory for a copy, by which its children are found.
TEST(RestoredProcess, IsNotKeptFromItByAnother) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    EXPECT_TRUE(testing::in_child([] {
        AllPages pages;
        pages.handler.hold_handler();
        const std::array<Orphaned, 3> processes;
        std::vector<std::shared_ptr<RecoveryRecord>> records;
        for (const Orphaned& each : processes) {
            pages.tell(&each.record());
            records.push_back(each.shared_record());
        }
        records[0]->breakpoint_count.store(RecoveryRecord::kMaxBreakpoints);
        testing::limit_addresses(48 << 20);
        EXPECT_TRUE(restore_all(records));
        for (const Orphaned& each : processes) {
            EXPECT_FALSE(pages.handler.is_mapped_in(Tid(each.pid())));
        }
    }));
}

// Its code is put back before its parent's pages are, which takes a while.
TEST(RestoredProcess, HasAChildThatOutlivesIt) {
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    AllPages pages;
    pages.handler.hold_handler();
    pages.region.be_code();
    pages.code.be_code();
    pages.data.be_wiped();
    std::array<int, 2> childs{};
    ASSERT_EQ(pipe(childs.data()), 0);
    pid_t child = 0;
    {
        Orphaned process([&] {
            const pid_t pid = fork();
            if (pid > 0) {
                EXPECT_EQ(write(childs[1], &pid, sizeof pid), ssize_t{sizeof pid});
            }
        });
        close(childs[1]);
        ASSERT_EQ(read(childs[0], &child, sizeof child), ssize_t{sizeof child});
        close(childs[0]);
        pages.tell(&process.record());
        const auto found = restore_code_in_children(process.record(), {});
        EXPECT_EQ(found.size(), 1U);
        process.end_by(SIGKILL);
        restore_children(process.record(), {}, found);
    }
    for (const Pages* each : {&pages.handler, &pages.region, &pages.code, &pages.data}) {
        EXPECT_FALSE(each->is_mapped_in(Tid(child)));
    }
    kill(child, SIGKILL);
    expect_end_by(child, SIGKILL);
}

} // namespace
} // namespace memleax
