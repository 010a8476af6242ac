// SPDX-License-Identifier: GPL-3.0-or-later
// What a session prints, and when, of an account that a test keeps; and the session's time.
#include "memleax/session/session_printer.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "memleax/base/clock.hpp"

namespace memleax {
namespace {

using ::testing::HasSubstr;

/// Notes what it is asked and told.
class Client final : public SessionClient {
  public:
    bool holds = false;
    std::vector<std::string> calls;

    int input_fd() override { return -1; }
    void on_input() override {}
    void on_watching() override {}
    void on_failure(const char* /*message*/) override {}
    void on_leaving() override {}
    bool on_left(const char* /*reason*/) override { return false; }
    bool busy() override { return false; }
    bool on_interrupt() override { return false; }
    void on_resize() override {}
    bool holds_output() override { return holds; }
    void before_output() override { calls.emplace_back("before"); }
    void after_output() override { calls.emplace_back("after"); }
};

class SessionPrinterTest : public ::testing::Test {
  protected:
    SessionPrinterTest() {
        account_.on_program({.executable = "/bin/program", .comm = "program", .engine = "int3"});
        account_.on_watching(1);
    }
    ~SessionPrinterTest() override { std::filesystem::remove(path_); }

    /// A block of `size` bytes that has expired, allocated by a call stack of its own.
    void expire_block(std::uint64_t size) {
        const std::vector frames{FrameAddress::exact(CodeAddr(0x1000 + ++blocks_))};
        account_.tracker().on_event(
            {.kind = EventKind::alloc,
             .tid = Tid(1),
             .address = RemoteAddr(blocks_ * 4096),
             .size = size,
             .old_address = {},
             .stack = account_.account().stacks.intern(frames, StackEnd::outermost),
             .time = MonotonicNs(static_cast<std::int64_t>(blocks_))});
        account_.tracker().with(
            [](Tracker& tracker) { return tracker.expire(MonotonicNs(kNsPerSecond * 100), 256); });
    }
    [[nodiscard]] std::string printed() const { return test::read_file(path_); }
    /// As often as a limit was reached.
    int take_notices() {
        int limits = 0;
        printer_.take_notices([&limits] { ++limits; });
        return limits;
    }
    SessionPrinter& printer() { return printer_; }

  private:
    std::string path_ = ::testing::TempDir() + "session_printer_" + std::to_string(getpid());
    SessionOptions options_;
    Result<ReportOutput> output_ = ReportOutput::open(path_);
    ProcessAccounts accounts_{{.memory_block_max = 3, .call_stack_max = 0}, ""};
    ProcessAccount& account_ = accounts_.add(Tid(getpid()), Tid(0));
    StackFilter filter_;
    SessionClock clock_;
    SessionPrinter printer_{options_, *output_, accounts_, filter_, clock_, false};
    std::uint64_t blocks_ = 0;
};

TEST_F(SessionPrinterTest, PrintsAnExpiredBlockOnce) {
    expire_block(4711);
    EXPECT_EQ(take_notices(), 0);
    EXPECT_EQ(printed(), "") << "to hear is not to print";
    printer().print_news(false);
    const std::string text = printed();
    EXPECT_THAT(text, HasSubstr("4711"));
    printer().print_news(false);
    EXPECT_EQ(printed(), text);
}

TEST_F(SessionPrinterTest, WaitsForWhoHasTheTerminalButNotTheLastTime) {
    Client client;
    printer().set_client(&client);
    client.holds = true;
    expire_block(4711);
    take_notices();
    printer().print_news(false);
    EXPECT_EQ(printed(), "");
    EXPECT_TRUE(client.calls.empty());
    expire_block(4712);
    take_notices();
    printer().print_news(true);
    EXPECT_THAT(printed(), HasSubstr("4711"));
    EXPECT_THAT(printed(), HasSubstr("4712"));
    EXPECT_EQ(client.calls, (std::vector<std::string>{"before", "after", "before", "after"}));
}

TEST(SessionClock, StandsStillWhileNobodyWatches) {
    SessionClock clock;
    EXPECT_FALSE(clock.begun());
    EXPECT_EQ(clock.seconds_since_begin(MonotonicNs(kNsPerSecond)), 0);
    clock.begin(MonotonicNs(2 * kNsPerSecond), 7);
    EXPECT_EQ(clock.begun_unix_ns(), 7);
    EXPECT_EQ(clock.seconds_since_begin(MonotonicNs(5 * kNsPerSecond)), 3);
    clock.freeze(MonotonicNs(4 * kNsPerSecond));
    EXPECT_TRUE(clock.is_frozen());
    EXPECT_EQ(clock.now(), MonotonicNs(4 * kNsPerSecond));
    const MonotonicNs before = monotonic_now();
    clock.thaw();
    EXPECT_FALSE(clock.is_frozen());
    EXPECT_GE(clock.now(), before);
}

} // namespace
} // namespace memleax
