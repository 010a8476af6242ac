// SPDX-License-Identifier: GPL-3.0-or-later
// What the guardian reads: entries that another mapping of the same file sees, and the death of
// the thread that held them.
#include "memleax/target/recovery_record.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memleax/base/log.hpp"

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

siginfo_t signal_with_value(int signal, int value) {
    siginfo_t info{};
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_value.sival_int = value;
    return info;
}

/// Thread and value of each.
std::vector<std::pair<int, int>> owed(const RecoveryRecord& record) {
    std::vector<std::pair<int, int>> result;
    for (const RecoveryRecord::OwedSignal& entry : record.owed) {
        if (entry.tid.load() != 0) {
            result.emplace_back(entry.tid.load(), entry.info.si_value.sival_int);
        }
    }
    EXPECT_EQ(record.owed_count.load(), result.size());
    return result;
}

TEST(Ranges, ThatAreUnmappedBecomeEmpty) {
    const auto record = RecoveryFile::private_record();
    ASSERT_TRUE(record->add_region({0x1000, 0x2000}));
    ASSERT_TRUE(record->add_region({0x4000, 0x5000}));
    ASSERT_TRUE(record->add_agent_data({0x8000, 0x9000}));
    record->on_unmapped({0x4000, 0x5000});
    record->on_unmapped({0x8000, 0x8800}); // another one
    EXPECT_EQ(record->region_count.load(), 2U);
    EXPECT_EQ(record->regions[0].size(), 0x1000U);
    EXPECT_EQ(record->regions[1].size(), 0U);
    EXPECT_EQ(record->agent_data[0].size(), 0x1000U);
    EXPECT_TRUE(record->tells_of(0x8000));
    record->on_unmapped({0x8000, 0x9000});
    EXPECT_EQ(record->agent_data[0].size(), 0U);
    EXPECT_TRUE(record->tells_of(0x1000));
    EXPECT_FALSE(record->tells_of(0x8000));
    EXPECT_FALSE(record->tells_of(0));
    record->set_handler({0x10000, 0x20000});
    EXPECT_TRUE(record->tells_of(0x10000));
    record->on_unmapped({0x10000, 0x20000});
    EXPECT_TRUE(record->handler.empty());
    EXPECT_FALSE(record->tells_of(0x10000));
}

TEST(OwedSignals, AreSettledByThreadAndSignal) {
    const auto record = RecoveryFile::private_record();
    record->owe(Tid(7), signal_with_value(SIGUSR1, 1));
    record->owe(Tid(8), signal_with_value(SIGUSR1, 2));
    record->owe(Tid(7), signal_with_value(SIGUSR2, 3));
    record->settle(Tid(9));
    record->settle(Tid(8), SIGUSR2);
    EXPECT_THAT(owed(*record), ElementsAre(Pair(7, 1), Pair(8, 2), Pair(7, 3)));
    record->settle(Tid(7), SIGUSR2);
    EXPECT_THAT(owed(*record), ElementsAre(Pair(7, 1), Pair(8, 2)));
    record->owe(Tid(7), signal_with_value(SIGUSR1, 4));
    record->settle(Tid(7), SIGUSR1);
    EXPECT_THAT(owed(*record), ElementsAre(Pair(8, 2), Pair(7, 4))) << "one of the two";
    record->settle(Tid(7));
    record->settle(Tid(8));
    EXPECT_THAT(owed(*record), IsEmpty());
}

TEST(OwedSignals, OfOneNumberAreSettledOneByOne) {
    const auto record = RecoveryFile::private_record();
    for (const int value : {1, 2, 3}) {
        record->owe(Tid(7), signal_with_value(SIGRTMIN, value));
    }
    record->owe(Tid(8), signal_with_value(SIGRTMIN, 2));
    record->settle(Tid(7), signal_with_value(SIGRTMIN, 2));
    EXPECT_THAT(owed(*record), ElementsAre(Pair(7, 1), Pair(7, 3), Pair(8, 2)));
    record->settle(Tid(7), signal_with_value(SIGRTMIN, 4)); // has got another one's value meanwhile
    EXPECT_THAT(owed(*record), ElementsAre(Pair(7, 3), Pair(8, 2)));
    record->settle(Tid(7), signal_with_value(SIGUSR1, 3));
    EXPECT_THAT(owed(*record), ElementsAre(Pair(7, 3), Pair(8, 2)));
}

TEST(OwedSignals, AThreadThatGoesOnIsOwedNothing) {
    const auto record = RecoveryFile::private_record();
    for (int i = 0; i < 3; ++i) {
        record->owe(Tid(7), signal_with_value(SIGUSR1 + i, i));
    }
    record->settle(Tid(7));
    EXPECT_THAT(owed(*record), IsEmpty());
}

TEST(OwedSignals, BeyondTheMostThatAreNotedNothingIsHarmed) {
    const auto record = RecoveryFile::private_record();
    const auto most = static_cast<int>(RecoveryRecord::kMaxOwed);
    for (int i = 0; i < most + 5; ++i) {
        record->owe(Tid(100 + i), signal_with_value(SIGUSR1, i));
    }
    EXPECT_EQ(owed(*record).size(), RecoveryRecord::kMaxOwed);
    for (int i = 0; i < most + 5; ++i) {
        record->settle(Tid(100 + i));
    }
    EXPECT_THAT(owed(*record), IsEmpty());
}

TEST(BlockingThreads, HaveNoHoles) {
    const auto record = RecoveryFile::private_record();
    for (int tid = 1; tid <= 3; ++tid) {
        record->set_blocking(Tid(tid), 100U + static_cast<unsigned>(tid), false);
    }
    record->set_blocking(Tid(2), 102, true);
    record->forget_blocking(Tid(1));
    record->forget_blocking(Tid(9));
    EXPECT_EQ(record->blocking[0].tid, 3);
    EXPECT_EQ(record->blocking[0].mask, 103U);
    EXPECT_EQ(record->blocking[1].tid, 2);
    EXPECT_EQ(record->blocking[1].unblocked, 1U);
    EXPECT_EQ(record->blocking[2].tid, 0);
}

class RecoveryFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        auto ours = RecoveryFile::create();
        ASSERT_TRUE(ours) << ours.error().message();
        ours_ = *std::move(ours);
        auto guardians = RecoveryFile::open(dup(ours_->fd()));
        ASSERT_TRUE(guardians) << guardians.error().message();
        guardians_ = *std::move(guardians);
    }

    std::unique_ptr<RecoveryFile> ours_;
    std::unique_ptr<RecoveryFile> guardians_; ///< as another process maps it
};

TEST_F(RecoveryFiles, ShowWhatIsInUseElsewhere) {
    const auto first = ours_->claim();
    auto second = ours_->claim();
    first->pid.store(7);
    second->pid.store(8);
    second->owe(Tid(8), signal_with_value(SIGUSR1, 1));
    const auto seen = guardians_->in_use();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0]->pid.load(), 7);
    EXPECT_EQ(seen[1]->pid.load(), 8);
    EXPECT_THAT(owed(*seen[1]), ElementsAre(Pair(8, 1)));
    second.reset();
    EXPECT_EQ(guardians_->in_use().size(), 1U);
    const auto third = ours_->claim(); // the second one's place
    third->pid.store(9);
    EXPECT_EQ(seen[1]->pid.load(), 9);
    EXPECT_THAT(owed(*seen[1]), IsEmpty()) << "an entry starts empty";
}

TEST_F(RecoveryFiles, TellOnceThatTheyAreFull) {
    const int log = memfd_create("log", MFD_CLOEXEC);
    set_log_fd(log);
    std::vector<std::shared_ptr<RecoveryRecord>> records;
    for (std::size_t i = 0; i < RecoveryFile::kMaxProcesses; ++i) {
        records.push_back(ours_->claim());
    }
    EXPECT_EQ(lseek(log, 0, SEEK_CUR), 0);
    const auto beyond = ours_->claim();
    const auto another = ours_->claim();
    set_log_fd(STDERR_FILENO);
    beyond->pid.store(7);
    EXPECT_THAT(guardians_->in_use(), IsEmpty());
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(pread(log, text.data(), 4096, 0), 0)));
    close(log);
    EXPECT_THAT(text, ::testing::StartsWith("memleax: warning: more than 1024 processes"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(RecoveryFiles, TellOfTheirHoldersDeath) {
    std::thread([this] { ours_->hold(); }).join();
    EXPECT_TRUE(guardians_->wait_for_holders_death());
}

TEST_F(RecoveryFiles, TellOfTheirHoldersLeave) {
    std::thread([this] {
        ours_->hold();
        ours_->release();
    }).join();
    EXPECT_FALSE(guardians_->wait_for_holders_death());
}

TEST(RecoveryFile, IsAskedByOthersWhetherItTellsOfAProcess) {
    const auto file = RecoveryFile::create();
    ASSERT_TRUE(file) << file.error().message();
    const auto tells_of = [&file](int pid, std::uint64_t start_time) {
        return RecoveryFile::tells_of((*file)->fd(), Tid(pid), start_time);
    };
    EXPECT_FALSE(tells_of(77, 1000));
    const auto first = (*file)->claim();
    {
        const auto second = (*file)->claim();
        second->start_time = 1000;
        second->pid.store(77);
        EXPECT_TRUE(tells_of(77, 1000));
        EXPECT_FALSE(tells_of(77, 1001)); // the number was given anew
        EXPECT_FALSE(tells_of(78, 1000));
    }
    EXPECT_FALSE(tells_of(77, 1000)); // it has been left
    // What is no such file tells of nothing.
    const int other = memfd_create("other", MFD_CLOEXEC);
    EXPECT_FALSE(RecoveryFile::tells_of(other, Tid(77), 1000));
    close(other);
}

} // namespace
} // namespace memleax
