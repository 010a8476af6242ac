// SPDX-License-Identifier: GPL-3.0-or-later
// Nobody reads what memleax writes (a pager that stands still, a terminal under Ctrl-S): the target
// neither waits for that nor stays traced, and signals end memleax.
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "prompt_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A FIFO with room for nothing, until somebody reads it.
class FullFifo {
  public:
    FullFifo() {
        EXPECT_EQ(mkfifo(path_.c_str(), S_IRUSR | S_IWUSR), 0);
        fd_ = open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
        const std::string bytes(4096, 'x');
        while (write(fd_, bytes.data(), bytes.size()) > 0) {
        }
    }
    ~FullFifo() { close(fd_); }
    FullFifo(const FullFifo&) = delete;
    FullFifo& operator=(const FullFifo&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    test::TemporaryFolder folder_;
    std::string path_ = folder_.file("full");
    int fd_ = -1;
};

/// memleax with these arguments, by a shell: "$@" is the program.
CommandLine by_shell(const std::string& script, const std::vector<std::string>& arguments) {
    CommandLine command{{"sh", "-c", script, "sh"}};
    const auto memleax = memleax_command();
    command.words.insert(command.words.end(), memleax.begin(), memleax.end());
    command.words.insert(command.words.end(), arguments.begin(), arguments.end());
    return command;
}

/// Waits until it is so, or for a minute.
template <class Condition> bool wait_until(Condition&& is_so) {
    for (int i = 0; i < 60'000 && !is_so(); ++i) {
        ::poll(nullptr, 0, 1);
    }
    return is_so();
}

bool is_traced(pid_t pid) {
    const auto info = try_read_process_info(Tid(pid));
    return info && info->tracer.value() != 0;
}

std::string pid_of(const Fixture& fixture) {
    return std::to_string(fixture.pid());
}

TEST(StalledOutput, TheTargetIsLeftInTimeAndThenSignalsEndUs) {
    const FullFifo fifo;
    Fixture fixture("expiring");
    Memleax memleax(by_shell("exec \"$@\" >" + fifo.path(), {"-q", "-t", "1", pid_of(fixture)}));
    memleax.wait_until_watching();
    EXPECT_TRUE(wait_until([&] { return !is_traced(fixture.pid()); }));
    EXPECT_TRUE(wait_until([&] { // one for the session, and one that insists
        memleax.process().signal(SIGINT);
        const auto info = try_read_process_info(Tid(memleax.process().pid()));
        return !info || info->has_ended();
    }));
    EXPECT_EQ(memleax.finish().status, SIGINT);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(StalledOutput, ASignalHasTheTargetLeft) {
    const FullFifo fifo;
    Fixture fixture("expiring");
    // Lines of what has expired stand still.
    Memleax memleax(by_shell("exec \"$@\" >" + fifo.path(), {"-e", "0.1", pid_of(fixture)}));
    memleax.wait_until_watching();
    fixture.ask("leak");
    memleax.process().signal(SIGTERM);
    EXPECT_TRUE(wait_until([&] { return !is_traced(fixture.pid()); }));
    EXPECT_EQ(memleax.finish().status, SIGTERM) << "it does not wait for ever";
    EXPECT_EQ(fixture.quit(), 0);
}

// Ctrl-S, where there is a line that tells how far it is.
TEST(StalledOutput, OfATerminalKeepsNoTarget) {
    Fixture fixture("expiring");
    std::vector<std::string> command = memleax_command();
    command.insert(command.end(), {"-q", "-t", "2", pid_of(fixture)});
    Terminal terminal(command);
    terminal.expect("watching");
    terminal.type("\x13");
    EXPECT_TRUE(wait_until([&] { return !is_traced(fixture.pid()); }));
    terminal.signal(SIGTERM);
    EXPECT_EQ(terminal.wait_for_end(), SIGTERM);
    EXPECT_TRUE(terminal.is_cooked());
    EXPECT_EQ(fixture.quit(), 0);
}

// The same at the prompt, whose mode is not left behind.
TEST(StalledOutput, OfATerminalWithAPromptKeepsNoTarget) {
    PromptOnTerminal prompt("expiring", {});
    const pid_t target = prompt.fixture->pid();
    prompt.terminal.type("watch 1 stats\r");
    prompt.terminal.expect("watch");
    prompt.terminal.type("\x13");
    prompt.terminal.signal(SIGTERM);
    EXPECT_TRUE(wait_until([&] { return !is_traced(target); }));
    EXPECT_EQ(prompt.terminal.wait_for_end(), SIGTERM);
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// Each stop is worth a line with --log debug.
TEST(StalledOutput, LogLinesStopNoTarget) {
    const FullFifo fifo;
    Fixture fixture("expiring");
    Memleax memleax(by_shell("exec \"$@\" 2>" + fifo.path(), {"-q", "--log", "debug", "-F", "json",
                                                              "-e", "1000", pid_of(fixture)}));
    EXPECT_TRUE(wait_until([&] { return is_traced(fixture.pid()); }));
    for (int i = 0; i < 20; ++i) {
        EXPECT_THAT(fixture.ask("leak").failures, IsEmpty());
    }
    memleax.process().signal(SIGTERM);
    EXPECT_TRUE(wait_until([&] { return !is_traced(fixture.pid()); }));
    EXPECT_EQ(fixture.quit(), 0);
    EXPECT_EQ(memleax.finish().status, SIGTERM);
}

TEST(StalledOutput, BeforeTheWatchingAndInALeakCheckSignalsEndUs) {
    Fixture fixture("expiring");
    const test::TemporaryFolder folder;
    const std::string fifo = folder.file("unread");
    ASSERT_EQ(mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--leak-check"}, {"-t", "1"}}) {
        std::vector<std::string> all = arguments;
        all.insert(all.end(), {"-o", fifo, pid_of(fixture)});
        Memleax memleax(all);
        EXPECT_TRUE(wait_until([&] {
            const auto kernel =
                try_read_kernel_state(Tid(memleax.process().pid()), Tid(memleax.process().pid()));
            return kernel && kernel->system_call && *kernel->system_call == SYS_openat;
        }));
        memleax.process().signal(SIGINT);
        EXPECT_EQ(memleax.finish().status, SIGINT);
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(StalledOutput, AFifoWithoutAReaderIsNotSavedTo) {
    Fixture fixture("expiring");
    const test::TemporaryFolder folder;
    const std::string fifo = folder.file("unread");
    ASSERT_EQ(mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
    const auto result =
        Memleax({"-q", "-t", "0.2", "-x", "save text " + fifo, pid_of(fixture)}).finish();
    EXPECT_THAT(result.errors, HasSubstr("cannot write " + fifo));
    EXPECT_EQ(fixture.quit(), 0);
}

// What is not open must not become a file of ours.
TEST(StandardDescriptors, LinesDoNotGoIntoTheReport) {
    Fixture fixture("expiring");
    const test::TemporaryFolder folder;
    const std::string report = folder.file("report");
    const std::vector<std::string> arguments{"-F", "json", "-q", "-t",    "0.2",
                                             "-o", report, "-x", "stats", pid_of(fixture)};
    for (const char* closed : {"0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"}) {
        const auto result =
            Memleax(by_shell(std::string("exec \"$@\" ") + closed, arguments)).finish();
        EXPECT_EQ(result.status, 0) << closed << result.errors;
        EXPECT_TRUE(nlohmann::json::accept(test::read_file(report))) << closed;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// A report of nothing is one, too.
TEST(ReportFile, LosesWhatItHadToAReportThatIsEmpty) {
    const test::TemporaryFolder folder;
    const std::string report = folder.file("report");
    test::write_file(report, "old\n");
    test::write_file(folder.file("saved"), "old\n");
    Fixture fixture("expiring");
    const auto result = Memleax({"-q", "-t", "0.2", "-F", "folded", "-o", report, "-x",
                                 "save folded " + folder.file("saved"), pid_of(fixture)})
                            .finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(test::read_file(report), "");
    EXPECT_EQ(test::read_file(folder.file("saved")), "");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ReportFile, StaysAsItWasIfNothingIsWatched) {
    const test::TemporaryFolder folder;
    const std::string report = folder.file("report");
    test::write_file(report, std::string(100'000, 'x'));
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--leak-check"}, {"-t", "1"}}) {
        std::vector<std::string> all = arguments;
        all.insert(all.end(), {"-o", report, "2147483647"});
        EXPECT_EQ(WEXITSTATUS(Memleax(all).finish().status), 1);
        EXPECT_EQ(test::read_file(report).size(), 100'000U);
    }
    Fixture fixture("expiring");
    const auto result =
        Memleax({"-q", "-t", "0.2", "-F", "json", "-o", report, pid_of(fixture)}).finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(nlohmann::json::accept(test::read_file(report)));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
