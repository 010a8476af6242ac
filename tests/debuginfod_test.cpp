// SPDX-License-Identifier: GPL-3.0-or-later
// Debug information from a server, and from servers that do not answer: the target never waits for
// either.
#include <cstdlib>
#include <filesystem>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A TCP port of 127.0.0.1 that somebody listens on, and never says a word.
class SilentServer {
  public:
    SilentServer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const any = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(bind(fd_.get(), any, size), 0);
        EXPECT_EQ(listen(fd_.get(), 16), 0);
        EXPECT_EQ(getsockname(fd_.get(), any, &size), 0);
        port_ = ntohs(address.sin_port);
    }
    [[nodiscard]] int port() const { return port_; }
    /// Has anybody called, or does anybody within that time?
    [[nodiscard]] bool is_called(int within_ms) const {
        pollfd wait{fd_.get(), POLLIN, 0};
        return poll(&wait, 1, within_ms) > 0;
    }

  private:
    ScopedFd fd_;
    int port_ = 0;
};

class Debuginfod : public ::testing::Test {
  protected:
    memleax::test::TemporaryFolder folder;

    void SetUp() override {
        if (const std::string tool = missing_tool("objcopy; strip"); !tool.empty()) {
            GTEST_SKIP() << tool << " is not installed";
        }
        ASSERT_EQ(system(fmt::format("cd {} && cp {} program && mkdir debug cache && "
                                     "objcopy --only-keep-debug program debug/program.debug && "
                                     "strip program",
                                     folder.file(""), fixture_path("alloc_all-O2-nofp-pie"))
                             .c_str()),
                  0);
    }
    [[nodiscard]] Environment environment(int port) const {
        return {{"DEBUGINFOD_URLS", fmt::format("http://127.0.0.1:{}", port)},
                {"DEBUGINFOD_CACHE_PATH", folder.file("cache")},
                {"no_proxy", "*"}};
    }
    [[nodiscard]] CommandLine program() const { return {{folder.file("program")}}; }
};

bool knows_lines(const nlohmann::json& report) {
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& frame : stack.at("frames")) {
            if (frame.value("module", "") == "program") {
                return frame.value("line", 0) > 0;
            }
        }
    }
    return false;
}

TEST_F(Debuginfod, HasTheLinesOfAStrippedProgram) {
    if (std::system("command -v debuginfod >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "debuginfod is not installed";
    }
    const int port = SilentServer().port(); // nobody's again
    ChildProcess server({"debuginfod", "-v", "-v", "-v", "-p", std::to_string(port), "-d",
                         folder.file("index"), "-F", folder.file("debug")});
    ASSERT_TRUE(server.find_error_line("atype=D")) << server.state();

    Fixture fixture(program());
    for (const bool from_cache : {false, true}) {
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())},
                        environment(port));
        memleax.wait_until_watching();
        fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_TRUE(knows_lines(result.json()));
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        const auto told = HasSubstr("of debug information for program");
        if (from_cache) {
            EXPECT_THAT(result.errors, Not(told));
        } else {
            EXPECT_THAT(result.errors, told);
            server.signal(SIGTERM);
            server.wait_for_end();
        }
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(Debuginfod, NobodyIsAskedBeforeTheTargetIsLeft) {
    const SilentServer server;
    Fixture fixture(program());
    Environment patience = environment(server.port());
    patience["DEBUGINFOD_TIMEOUT"] = "1";
    // Whatever lives has expired, however fast the two rounds are.
    Memleax memleax({"-q", "-e", "0.000001", std::to_string(fixture.pid())}, patience);
    memleax.wait_until_watching();
    fixture.go();
    fixture.go();
    EXPECT_FALSE(server.is_called(0));
    memleax.interrupt();
    EXPECT_TRUE(server.is_called(60'000));
    const auto info = try_read_process_info(Tid(fixture.pid()));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->tracer.value(), 0);
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("nothing came for 1 s: nobody is asked again"));
    EXPECT_THAT(result.output, HasSubstr("may-leak="));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(Debuginfod, TheTargetRunsOnWhileALineWaitsForAName) {
    const SilentServer server;
    Fixture fixture(program());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-e", "0.01", std::to_string(fixture.pid())}, environment(server.port()));
    memleax.wait_until_watching();
    fixture.go();
    ASSERT_TRUE(server.is_called(60'000)); // for the first live line
    for (int i = 0; i < 20; ++i) {
        fixture.go();
    }
    const auto result = memleax.interrupt_and_finish(); // Ctrl-C: go on without
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("debuginfod: given up"));
    EXPECT_THAT(result.output, HasSubstr("may-leak="));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(Debuginfod, TheTimeOfWatchingEndsAllTheSame) {
    const SilentServer server;
    Fixture fixture(program());
    Environment patience = environment(server.port());
    patience["DEBUGINFOD_TIMEOUT"] = "3";
    Memleax memleax({"-e", "0.01", "-t", "0.5", std::to_string(fixture.pid())}, patience);
    memleax.wait_until_watching();
    fixture.go();
    ASSERT_TRUE(memleax.process().find_error_line("nothing came for 3 s"));
    const auto info = try_read_process_info(Tid(fixture.pid()));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->tracer.value(), 0); // for two seconds now
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("may-leak="));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
