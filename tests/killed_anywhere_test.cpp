// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed with SIGKILL while it attaches, watches or leaves, over and over, in targets as
// unlike as can be: each works on, its code is that of its files, byte by byte, and nothing of ours
// is left in it. (own_death_test looks more closely at one target.)
//
// More than 500 kills: MEMLEAX_STRESS_COUNT=10 killed_anywhere_test
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_support.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Redis : public Worker {
  public:
    Redis()
        : server_({"redis-server", "--port", "0", "--unixsocket", socket(), "--save", "",
                   "--daemonize", "no", "--dir", folder_.string()}) {
        while (const auto line = server_.read_line()) {
            if (line->find("eady to accept") != std::string::npos) {
                break;
            }
        }
    }
    ~Redis() override {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    pid_t pid() const override { return server_.pid(); }
    void start_working() override {
        client_ = std::make_unique<ChildProcess>(std::vector<std::string>{
            "redis-benchmark", "-s", socket(), "-n", std::to_string(share_of(3000)), "-c", "10",
            "-q", "-t", "set,get,lpush"});
    }
    void stop_working() override {
        EXPECT_EQ(client_->wait_for_end(), 0) << client_->output() << client_->errors();
        ChildProcess ping({"redis-cli", "-s", socket(), "ping"});
        ping.wait_for_end();
        EXPECT_THAT(ping.output(), HasSubstr("PONG"));
    }
    void end() override {
        server_.signal(SIGTERM);
        EXPECT_EQ(server_.wait_for_end(), 0);
    }

  private:
    static std::filesystem::path new_folder() {
        char name[] = "/tmp/memleax-test-XXXXXX";
        return mkdtemp(name);
    }
    std::string socket() const { return folder_ / "redis.sock"; }

    std::filesystem::path folder_ = new_folder();
    ChildProcess server_;
    std::unique_ptr<ChildProcess> client_;
};

const std::string kPython = R"(
import sys, threading
ends = threading.Event()
def work(number):
    while not ends.is_set():
        kept = [bytearray([i & 255]) * (900 + i) for i in range(50 * number)]
        for i, block in enumerate(kept):
            if len(block) != 900 + i or block.count(i & 255) != len(block):
                print('fail', i, flush=True)
print('ready', flush=True)
for line in sys.stdin:
    if line == 'quit\n':
        break
    if line == 'spin\n':
        ends.clear()
        threads = [threading.Thread(target=work, args=[n]) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        print('spinning', flush=True)
    else:
        ends.set()
        for thread in threads:
            thread.join()
        print('done', flush=True)
)";

const std::string kNode = R"(
const zlib = require('zlib');
let working = false;
function work() {
    const block = Buffer.alloc(20003, 'x');
    zlib.deflate(block, (error, packed) => {
        if (error || !zlib.inflateSync(packed).equals(block)) {
            console.log('fail');
        }
        if (working) {
            setImmediate(work);
        } else {
            console.log('done');
        }
    });
}
process.stdin.on('data', (line) => {
    if (line.toString() == 'quit\n') {
        process.exit(0);
    }
    working = line.toString() == 'spin\n';
    if (working) {
        console.log('spinning');
        work();
    }
});
process.stdin.on('end', () => process.exit(0));
console.log('ready');
)";

struct Kind {
    std::string name;
    std::string program; ///< of fixtures/, or of PATH
    std::vector<std::string> arguments = {};
    bool sleeps = false; ///< while memleax is there
    /// Each of its children calls sigaction(3), and waits there for a guardian, for a second.
    bool has_waiting_children = false;
};
void PrintTo(const Kind& kind, std::ostream* out) {
    *out << kind.name;
}

bool is_there(const Kind& kind) {
    return has_program(kind.program) || is_built(kind.program);
}

std::unique_ptr<Worker> make_worker(const Kind& kind) {
    if (kind.name == "redis") {
        return std::make_unique<Redis>();
    }
    const std::string fixture = fixture_path(kind.program);
    CommandLine command{{access(fixture.c_str(), X_OK) == 0 ? fixture : kind.program}};
    command.words.insert(command.words.end(), kind.arguments.begin(), kind.arguments.end());
    return std::make_unique<SpeakingWorker>(command, kind.sleeps);
}

class KilledAnywhere : public ::testing::TestWithParam<Kind> {
  protected:
    /// Starts memleax and kills it. Where it is hit is random; these are no waits for anything.
    void kill_one(pid_t pid) {
        Memleax memleax({"-q", "-e", "1000", std::to_string(pid)});
        enum { attaching = 1, watching, leaving };
        const int when = stress_.number_to(leaving);
        if (when != attaching) {
            memleax.wait_until_watching();
        }
        if (when == leaving) {
            memleax.interrupt();
        }
        const int most_us = when == leaving ? 6'000 : when == watching ? 40'000 : 25'000;
        const int delay_us = stress_.number_to(most_us);
        usleep(static_cast<useconds_t>(delay_us));
        memleax.process().signal(SIGKILL);
        // Until the guardian, who has the same standard error, has ended.
        const auto result = memleax.finish();
        errors_ = fmt::format("{} us after {}: {}", delay_us,
                              when == leaving    ? "its SIGINT"
                              : when == watching ? "\"watching\""
                                                 : "its start",
                              result.errors);
        kills_ += result.status == SIGKILL ? 1 : 0;
        EXPECT_TRUE(result.status == SIGKILL || (when == leaving && result.status == 0))
            << result.status << errors_;
    }

    /// Between two of its ptrace calls, while it watches or leaves.
    void kill_one_at_a_call(pid_t pid) {
        Memleax memleax({"-q", "-e", "1000", std::to_string(pid)});
        memleax.wait_until_watching();
        const int call = stress_.number_to(150);
        const KillAtPtraceCall kill(memleax, call);
        memleax.interrupt();
        const auto result = memleax.finish();
        errors_ = fmt::format("at ptrace call {}: {}", call, result.errors);
        kills_ += result.status == SIGKILL ? 1 : 0;
        EXPECT_TRUE(result.status == SIGKILL || result.status == 0) << result.status << errors_;
    }

    /// While it watches or leaves, and its guardian first: nobody puts anything back.
    void kill_with_guardian(pid_t pid) {
        Memleax memleax({"-q", "-e", "1000", std::to_string(pid)});
        memleax.wait_until_watching();
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        kill(*guardian, SIGKILL);
        const bool leaves = stress_.number_to(2) == 1;
        const int delay_us = stress_.number_to(leaves ? 6'000 : 40'000);
        if (leaves) {
            memleax.interrupt();
        }
        usleep(static_cast<useconds_t>(delay_us));
        memleax.process().signal(SIGKILL);
        const auto result = memleax.finish();
        errors_ = fmt::format("{} us after {}: {}", delay_us,
                              leaves ? "its SIGINT" : "\"watching\"", result.errors);
        kills_ += result.status == SIGKILL ? 1 : 0;
        EXPECT_TRUE(result.status == SIGKILL || (leaves && result.status == 0)) << errors_;
    }

    /// Kills memleax this way again and again; each time the target is as it was.
    void check(const std::function<void(pid_t)>& kill) {
        const auto worker = make_worker(GetParam());
        worker->start_working();
        worker->stop_working();
        TargetSnapshot before = take_snapshot(worker->pid());
        ASSERT_THAT(unlike_their_files(before), IsEmpty());
        while (stress_.next()) {
            worker->start_working();
            kill(worker->pid());
            SCOPED_TRACE(errors_);
            ASSERT_NO_THROW(worker->stop_working());
            const TargetSnapshot after = take_snapshot(worker->pid());
            EXPECT_THAT(unlike_their_files(after), IsEmpty());
            if (errors_.find("such pages stay mapped, and do no harm") != std::string::npos) {
                ++kept_pages_; // something on a stack looks like a way back to them
                before = after;
            }
            EXPECT_THAT(differences(before, after, Meanwhile::worked), IsEmpty());
        }
        worker->end();
        std::cout << fmt::format("{} kills of {}; pages were kept {} times\n", kills_,
                                 GetParam().name, kept_pages_);
    }

    Stress stress_{4};
    std::string errors_;
    int kills_ = 0;      ///< the others had left before
    int kept_pages_ = 0; ///< times that the guardian said so
};

TEST_P(KilledAnywhere, TheCodeIsThatOfTheFiles) {
    if (!is_there(GetParam())) {
        GTEST_SKIP() << GetParam().program << " is not here";
    }
    check([this](pid_t pid) { kill_one(pid); });
}

TEST_P(KilledAnywhere, AtACallTheCodeIsThatOfTheFiles) {
    if (!is_there(GetParam()) || !has_program("strace")) {
        GTEST_SKIP() << GetParam().program << " or strace is not here";
    }
    check([this](pid_t pid) { kill_one_at_a_call(pid); });
}

// What is left in the target then works by itself: jumps, rings that nobody reads any more, and
// breakpoints with a handler of ours for them.
TEST_P(KilledAnywhere, WithItsGuardianTheTargetWorksOn) {
    if (!is_there(GetParam())) {
        GTEST_SKIP() << GetParam().program << " is not here";
    }
    while (stress_.next() && (kills_ == 0 || !GetParam().has_waiting_children)) {
        const auto worker = make_worker(GetParam());
        worker->start_working();
        kill_with_guardian(worker->pid());
        SCOPED_TRACE(errors_);
        for (int round = 0; round < 2; ++round) {
            ASSERT_NO_THROW(worker->stop_working());
            worker->start_working();
        }
        ASSERT_NO_THROW(worker->stop_working());
        worker->end();
    }
    std::cout << fmt::format("{} kills of {}\n", kills_, GetParam().name);
}

// Without what docs/limits.md, says cannot be helped: threads that block SIGTRAP for a
// while, again and again, and allocate then (the fixture signals, Go's making of threads).
INSTANTIATE_TEST_SUITE_P(
    Targets, KilledAnywhere,
    ::testing::Values(
        Kind{"all_registers", "all_registers"},
        Kind{"one_asleep", "alloc_all-O2-nofp-pie", {}, true}, Kind{"many_threads", "threads16"},
        Kind{"short_threads", "thread_churn"},
        Kind{"fork_vfork_spawn", "forker", {"3", "100000", "dirty"}, false, true},
        Kind{"blocks_trap", "survivor"}, Kind{"dlopen_dlclose", "dlopen_plugin"},
        Kind{"static_glibc", "threads16-static"}, Kind{"static_pie", "threads16-static-pie"},
        Kind{"static_musl", "musl-threads16"}, Kind{"exceptions", "longjmp_exceptions"},
        Kind{"jemalloc", "threads16-jemalloc"}, Kind{"python", "/usr/bin/python3", {"-c", kPython}},
        // Without a compiler, which would put code into pages of its own.
        Kind{"node", "node", {"--jitless", "-e", kNode}}, Kind{"redis", "redis-server"}),
    [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace memleax::testing
