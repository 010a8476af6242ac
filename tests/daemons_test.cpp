// SPDX-License-Identifier: GPL-3.0-or-later
// Real daemons under load, watched, left, watched again: no request fails, and they go on
// afterwards. scripts/setup.sh installs them; each runs on sockets in a folder of its own.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_support.hpp"
#include "program_support.hpp"
#include "share_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;

/// A folder that is removed with what is in it.
class Folder {
  public:
    Folder() {
        char name[] = "/tmp/memleax-test-XXXXXX";
        path_ = mkdtemp(name);
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

/// Runs a shell command to its end; all that it printed, and its status.
std::pair<int, std::string> run(const std::string& command) {
    ChildProcess shell({"/bin/sh", "-c", command + " 2>&1"});
    const int status = shell.wait_for_end();
    return {status, shell.output()};
}

/// Watches `pid` twice, the first time with --check, while `load` (a shell command) runs; expects
/// that both end well.
void watch_twice(pid_t pid, const std::string& load, bool allocates = true) {
    for (int round = 0; round < 2; ++round) {
        std::vector<std::string> words{"-F", "json", "-e", "1", "-t", "3", std::to_string(pid)};
        if (round == 0) {
            words.emplace_back("--check");
        }
        Memleax memleax(words);
        memleax.wait_until_watching();
        const auto [status, output] = run(load);
        EXPECT_EQ(status, 0) << output;
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        const auto events = result.json().at("session").at("events");
        EXPECT_TRUE(!allocates || events.at("alloc").get<std::uint64_t>() > 0) << events;
        EXPECT_EQ(result.json().at("session").at("events").at("double_free").get<std::uint64_t>(),
                  0U);
        const auto json = result.json();
        EXPECT_TRUE(json.value("errors", nlohmann::json::array()).empty()) << json.at("errors");
    }
    const auto [status, output] = run(load); // on its own again
    EXPECT_EQ(status, 0) << output;
}

TEST(Daemons, Redis) {
    if (!has_program("redis-server") || !has_program("redis-benchmark")) {
        GTEST_SKIP() << "redis is not installed";
    }
    Folder folder;
    const std::string socket = folder / "redis.sock";
    ChildProcess server({"redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
                         "--daemonize", "no", "--dir", folder / ""});
    for (std::optional<std::string> line; (line = server.read_line());) {
        if (line->find("ready to accept") != std::string::npos ||
            line->find("The server is now ready") != std::string::npos) {
            break;
        }
    }
    watch_twice(server.pid(), "redis-benchmark -s " + socket + " -n " +
                                  std::to_string(share_of(2000)) + " -c 10 -q -t set,get,lpush");
    EXPECT_THAT(run("redis-cli -s " + socket + " ping").second, HasSubstr("PONG"));
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait_for_end(), 0);
}

TEST(Daemons, Memcached) {
    if (!has_program("memcached") || !has_program("python3")) {
        GTEST_SKIP() << "memcached is not installed";
    }
    Folder folder;
    const std::string socket = folder / "memcached.sock";
    ChildProcess server({"memcached", "-u", "root", "-s", socket, "-m", "16", "-v"});
    // A client that checks every answer; connects anew each time, which is what makes it allocate.
    const std::string client = folder / "client.py";
    std::ofstream(client) << R"(
import socket, sys, time
def connect():
    for attempt in range(200):
        try:
            s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); return s
        except OSError:
            time.sleep(0.05)
    raise SystemExit('no server')
for i in range(200):
    s = connect(); f = s.makefile('rb')
    value = b'x' * (i * 7 % 5000)
    s.sendall(b'set key%d 0 0 %d\r\n%s\r\n' % (i, len(value), value))
    assert f.readline() == b'STORED\r\n'
    s.sendall(b'get key%d\r\n' % i)
    assert f.readline().startswith(b'VALUE key')
    assert f.read(len(value) + 2) == value + b'\r\n' and f.readline() == b'END\r\n'
    f.close(); s.close()
)";
    const std::string load = "python3 " + client + " " + socket;
    ASSERT_EQ(run(load).first, 0); // it is up
    // It serves from its slabs: once warm it may never call malloc.
    watch_twice(server.pid(), load, false);
    server.signal(SIGTERM);
    server.wait_for_end();
}

TEST(Daemons, Nginx) {
    if (!has_program("nginx") || !has_program("wrk")) {
        GTEST_SKIP() << "nginx or wrk is not installed";
    }
    Folder folder;
    const int port = 20000 + getpid() % 20000;
    std::ofstream(folder / "index.html") << "hello\n";
    std::ofstream(folder / "nginx.conf")
        << "daemon off; master_process off; worker_processes 1; pid " << folder / "pid"
        << "; error_log stderr;\nevents { worker_connections 64; }\nhttp { access_log off; "
        << "client_body_temp_path " << folder / "t1"
        << "; proxy_temp_path " << folder / "t2"
        << "; fastcgi_temp_path " << folder / "t3"
        << "; uwsgi_temp_path " << folder / "t4"
        << "; scgi_temp_path " << folder / "t5"
        << "; server { listen 127.0.0.1:" << port << "; root " << folder / ""
        << "; keepalive_timeout 60; } }\n";
    ChildProcess server({"nginx", "-c", folder / "nginx.conf", "-p", folder / ""});
    const std::string load = "wrk -t1 -c8 -d2s http://127.0.0.1:" + std::to_string(port) + "/";
    // Up when it answers; wrk says "unable to connect" before.
    for (int attempt = 0; attempt < 100; ++attempt) {
        if (run("wrk -t1 -c1 -d1s http://127.0.0.1:" + std::to_string(port) + "/").first == 0) {
            break;
        }
    }
    watch_twice(server.pid(),
                load + R"( | awk '/Non-2xx|Socket errors/ {bad=1} {print} END {exit bad}')");
    server.signal(SIGQUIT);
    EXPECT_EQ(server.wait_for_end(), 0);
}

TEST(Daemons, PythonThatLeaksThroughCtypes) {
    if (!has_program("/usr/bin/python3")) {
        GTEST_SKIP() << "python3 is not installed";
    }
    Folder folder;
    const std::string script = folder / "leak.py";
    std::ofstream(script) << R"(
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
print('ready', flush=True)
for line in sys.stdin:
    for i in range(50):
        libc.malloc(1234)
    work = [str(i) * 10 for i in range(2000)]
    print(len(work), flush=True)
)";
    ChildProcess python({"/usr/bin/python3", script}, {{"PYTHONMALLOC", "malloc"}});
    ASSERT_EQ(python.read_line(), "ready");
    for (int round = 0; round < 2; ++round) {
        Memleax memleax({"-F", "json", std::to_string(python.pid())});
        memleax.wait_until_watching();
        python.send("go");
        ASSERT_EQ(python.read_line(), "2000");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        std::int64_t leaked = 0;
        const nlohmann::json report = result.json();
        for (const auto& stack : report.at("callstacks")) {
            // The interpreter's loop has several call stacks, as it specializes itself; each has
            // nothing but blocks of this size.
            const auto blocks = stack.at("live_blocks").get<std::int64_t>();
            if (stack.at("live_bytes").get<std::int64_t>() == blocks * 1234) {
                leaked += blocks;
            }
        }
        EXPECT_EQ(leaked, 50);
    }
    python.close_input();
    EXPECT_EQ(python.wait_for_end(), 0);
}

} // namespace
} // namespace memleax::testing
