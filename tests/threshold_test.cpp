// SPDX-License-Identifier: GPL-3.0-or-later
// --at-memory and --at-pressure: when they are passed, and what the reports' files are called.
#include "memleax/session/threshold_watch.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "elf_support.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/session/threshold_reports.hpp"

namespace memleax {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = ThresholdPassed::Kind;

MonotonicNs at_s(double time_s) {
    return MonotonicNs(nanoseconds(time_s));
}

TEST(Crossing, CountsOnceForEachRise) {
    Crossing crossing;
    EXPECT_FALSE(crossing.passes(50, 100));
    EXPECT_FALSE(crossing.passes(99, 100));
    EXPECT_TRUE(crossing.passes(100, 100));
    EXPECT_FALSE(crossing.passes(120, 100));
    EXPECT_FALSE(crossing.passes(96, 100)) << "not below by 5 %";
    EXPECT_FALSE(crossing.passes(101, 100));
    EXPECT_FALSE(crossing.passes(94, 100));
    EXPECT_TRUE(crossing.passes(101, 100));
    EXPECT_FALSE(crossing.began_beyond());
}

TEST(Crossing, ThatBeginsBeyondHasToFallFirst) {
    Crossing crossing;
    EXPECT_FALSE(crossing.passes(110, 100));
    EXPECT_TRUE(crossing.began_beyond());
    EXPECT_FALSE(crossing.passes(120, 100));
    EXPECT_FALSE(crossing.passes(90, 100));
    EXPECT_FALSE(crossing.began_beyond());
    EXPECT_TRUE(crossing.passes(100, 100));
}

TEST(PressureSpell, LastsWhileEventsCome) {
    PressureSpell spell(2'000'000);
    EXPECT_TRUE(spell.begins(at_s(1)));
    EXPECT_FALSE(spell.begins(at_s(3)));
    EXPECT_FALSE(spell.begins(at_s(12.9))) << "the one before was less than 10 s ago";
    EXPECT_FALSE(spell.begins(at_s(22)));
    EXPECT_TRUE(spell.begins(at_s(32.1)));
    PressureSpell long_windows(10'000'000);
    EXPECT_TRUE(long_windows.begins(at_s(1)));
    EXPECT_FALSE(long_windows.begins(at_s(50)));
    EXPECT_TRUE(long_windows.begins(at_s(101)));
}

class ThresholdWatchTest : public ::testing::Test {
  protected:
    std::vector<ThresholdPassed> take(double time_s, short events) {
        std::vector<pollfd> polled;
        watch_.add_to_poll(&polled);
        for (pollfd& each : polled) {
            each.revents = each.fd >= 0 ? events : short{0};
        }
        return watch_.take(at_s(time_s), polled);
    }
    SessionOptions options_;
    ProcessAccounts accounts_{{}, ""};
    ThresholdWatch watch_{options_, accounts_};
};

TEST_F(ThresholdWatchTest, WithoutThresholdsNothingIsDue) {
    EXPECT_EQ(watch_.due(), std::nullopt);
    EXPECT_THAT(take(1, 0), IsEmpty());
    options_.at_memory.push_back({"2G", std::nullopt, 2ULL << 30});
    EXPECT_TRUE(watch_.due());
}

TEST_F(ThresholdWatchTest, TellsOncePerSpellOfPressure) {
    options_.at_pressure = PressureThreshold{"full:50ms/2s", {true, 50'000, 2'000'000}};
    watch_.add("/sys/fs/cgroup/app/memory.pressure", PressureTrigger(-1), Tid(4711));
    std::vector<pollfd> polled;
    watch_.add_to_poll(&polled);
    ASSERT_THAT(polled, SizeIs(1));
    EXPECT_EQ(polled[0].events, POLLPRI);
    const auto take_with = [&](double time_s, short events) {
        polled[0].revents = events;
        return watch_.take(at_s(time_s), polled);
    };
    EXPECT_THAT(take_with(1, 0), IsEmpty());
    const auto passed = take_with(2, POLLPRI);
    ASSERT_THAT(passed, SizeIs(1));
    EXPECT_EQ(passed[0].kind, Kind::pressure);
    EXPECT_EQ(passed[0].pid, Tid(4711));
    EXPECT_EQ(passed[0].why, "all tasks waited for memory for 50 ms within 2000 ms, says "
                             "/sys/fs/cgroup/app/memory.pressure (--at-pressure full:50ms/2s)");
    EXPECT_THAT(take_with(4, POLLPRI), IsEmpty());
    EXPECT_THAT(take_with(30, POLLPRI), SizeIs(1));
    EXPECT_THAT(take_with(60, POLLERR | POLLPRI), IsEmpty()) << "the group has gone";
    EXPECT_THAT(take_with(90, POLLPRI), IsEmpty());
}

TEST_F(ThresholdWatchTest, AGroupThatHasGoneIsNotPolledForEver) {
    options_.at_pressure = PressureThreshold{"some", {}};
    watch_.add("/sys/fs/cgroup/app/memory.pressure", PressureTrigger(dup(0)), Tid(4711));
    EXPECT_THAT(take(1, POLLERR), IsEmpty());
    std::vector<pollfd> polled;
    watch_.add_to_poll(&polled);
    EXPECT_EQ(polled.at(0).fd, -1) << "poll(2) would return at once, again and again";
}

TEST_F(ThresholdWatchTest, TheKernelsTriggerIsPolledAtAll) {
    auto trigger = PressureTrigger::open(pressure_file_of(Tid(getpid())), {});
    if (!trigger) {
        GTEST_SKIP() << trigger.error().message();
    }
    pollfd polled{trigger->fd(), POLLPRI, 0};
    EXPECT_GE(poll(&polled, 1, 0), 0);
    EXPECT_EQ(polled.revents & (POLLERR | POLLNVAL), 0);
}

TEST_F(ThresholdWatchTest, NoPressureFileIsAnError) {
    const auto trigger = PressureTrigger::open("/nowhere/memory.pressure", {});
    ASSERT_FALSE(trigger);
    EXPECT_THAT(trigger.error().message(),
                HasSubstr("cannot wait for pressure by /nowhere/memory.pressure"));
}

class ThresholdReportsTest : public ::testing::Test {
  protected:
    std::string name(Kind kind, bool several = false, int pid = 4711) const {
        return ThresholdReports(options_, several).next_path({kind, Tid(pid), ""});
    }
    void format(const char* name) { options_.format = find_report_format(name); }

    SessionOptions options_;
    test::TemporaryFolder folder_;
};

TEST_F(ThresholdReportsTest, AreNamedByTheProcess) {
    EXPECT_EQ(name(Kind::memory), "memleax-4711-at-memory.txt");
    EXPECT_EQ(name(Kind::pressure), "memleax-4711-at-pressure.txt");
    format("pprof");
    EXPECT_EQ(name(Kind::memory), "memleax-4711-at-memory.pb.gz");
    options_.output = "/dev/null";
    EXPECT_EQ(name(Kind::memory), "memleax-4711-at-memory.pb.gz") << "no file";
}

TEST_F(ThresholdReportsTest, AreNamedAfterTheReport) {
    options_.output = "out.d/report.html";
    format("html");
    EXPECT_EQ(name(Kind::memory), "out.d/report-at-memory.html");
    EXPECT_EQ(name(Kind::memory, true), "out.d/report-4711-at-memory.html");
    options_.output = "out.d/report";
    EXPECT_EQ(name(Kind::memory), "out.d/report-at-memory");
    options_.output = "heap.pb.gz";
    format("pprof");
    EXPECT_EQ(name(Kind::pressure), "heap-at-pressure.pb.gz");
}

TEST_F(ThresholdReportsTest, AreNamedAsTheUserWants) {
    options_.output = "report.txt";
    options_.at_output = "/tmp/100%%/full-%p.txt";
    EXPECT_EQ(name(Kind::memory, true), "/tmp/100%/full-4711.txt");
    options_.at_output = "50%";
    EXPECT_EQ(name(Kind::memory), "50%");
    options_.at_output = "a%qb";
    EXPECT_EQ(name(Kind::memory), "a%qb");
}

TEST_F(ThresholdReportsTest, DoNotOverwriteEachOther) {
    ThresholdReports reports(options_, false);
    const ThresholdPassed passed{Kind::memory, Tid(4711), ""};
    EXPECT_EQ(reports.next_path(passed), "memleax-4711-at-memory.txt");
    EXPECT_EQ(reports.next_path(passed), "memleax-4711-at-memory-2.txt");
    EXPECT_EQ(reports.next_path({Kind::pressure, Tid(4711), ""}), "memleax-4711-at-pressure.txt");
    EXPECT_EQ(reports.next_path(passed), "memleax-4711-at-memory-3.txt");
    EXPECT_EQ(reports.next_path({Kind::memory, Tid(12), ""}), "memleax-12-at-memory.txt");
}

TEST_F(ThresholdReportsTest, ReplaceALinkAndNotWhatItPointsTo) {
    const std::string victim = folder_.file("victim");
    const std::string path = folder_.file("report.txt");
    std::ofstream(victim) << "precious";
    std::filesystem::create_symlink(victim, path);
    std::filesystem::create_symlink(victim, path + ".part");
    options_.at_output = path;
    const auto saved = ThresholdReports(options_, false).save(Report{}, {Kind::memory, Tid(1), ""});
    ASSERT_TRUE(saved) << saved.error().message();
    EXPECT_EQ(*saved, path);
    EXPECT_EQ(test::read_file(victim), "precious");
    EXPECT_THAT(test::read_file(path), HasSubstr("== No expired memory blocks."));
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_F(ThresholdReportsTest, WithoutAFolderNothingBegins) {
    options_.at_output = folder_.file("no/such/report.txt");
    EXPECT_TRUE(ThresholdReports::check(options_)) << "nobody asks for one";
    options_.at_memory.push_back({"1G", std::nullopt, 1 << 30});
    const auto checked = ThresholdReports::check(options_);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message(),
                HasSubstr("cannot write the reports of --at-memory and --at-pressure to "));
    const auto saved = ThresholdReports(options_, false).save(Report{}, {Kind::memory, Tid(1), ""});
    ASSERT_FALSE(saved);
    EXPECT_THAT(saved.error().message(), HasSubstr("report.txt"));
}

TEST_F(ThresholdReportsTest, WithoutANameThatCanBeWrittenNothingBegins) {
    options_.at_memory.push_back({"1G", std::nullopt, 1 << 30});
    options_.pids = {12, 4711};
    const auto refused = [this](const std::string& name) {
        options_.at_output = name;
        const auto checked = ThresholdReports::check(options_);
        return checked ? "(accepted)" : checked.error().message();
    };
    std::filesystem::create_directories(folder_.file("100%/4711.d"));
    std::filesystem::create_directory_symlink(folder_.file("100%"), folder_.file("link"));
    const std::string start = "cannot write the reports of --at-memory and --at-pressure to ";
    for (const char* name : {"100%", "100%/", "link"}) {
        EXPECT_EQ(refused(folder_.file(name)),
                  start + folder_.file(name) +
                      ": Is a directory; name another place with --at-output");
    }
    EXPECT_THAT(refused(folder_.file("100%%/%p.d")),
                HasSubstr(start + folder_.file("100%/4711.d") + ": Is a directory"));
    EXPECT_EQ(refused(folder_.file("100%%/%p.txt")), "(accepted)");
    // Nobody reads it yet.
    ASSERT_EQ(mkfifo(folder_.file("pipe").c_str(), 0600), 0);
    EXPECT_EQ(refused(folder_.file("pipe")), "(accepted)");
    std::ofstream(folder_.file("old")) << "of an earlier run";
    EXPECT_EQ(refused(folder_.file("old")), "(accepted)");
    EXPECT_EQ(test::read_file(folder_.file("old")), "of an earlier run");
    // In a process of its own, by user 65534 ("nobody") if we are root, whom no mode keeps out.
    ASSERT_EQ(chmod(folder_.file("").c_str(), 0777), 0);
    ASSERT_EQ(chmod(folder_.file("old").c_str(), 0444), 0);
    ASSERT_EQ(chmod(folder_.file("pipe").c_str(), 0444), 0);
    std::filesystem::create_symlink(folder_.file("old"), folder_.file("to_old"));
    const auto as_nobody = [&](const std::string& name) {
        if (getuid() == 0 && setuid(65534) != 0) {
            _exit(1);
        }
        const std::string told = refused(folder_.file(name));
        std::fputs(told.c_str(), stderr);
        _exit(0);
    };
    EXPECT_EXIT(as_nobody("pipe"), ::testing::ExitedWithCode(0),
                start + folder_.file("pipe") + ": Permission denied");
    for (const char* replaced : {"old", "to_old"}) {
        EXPECT_EXIT(as_nobody(replaced), ::testing::ExitedWithCode(0), "accepted");
    }
}

} // namespace
} // namespace memleax
