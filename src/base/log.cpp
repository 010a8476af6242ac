// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdint>

#include <fcntl.h>
#include <unistd.h>

#include "memleax/base/log_relay.hpp"
#include "memleax/base/output_wait.hpp"
#include "memleax/base/printable.hpp"

namespace memleax {

namespace {
std::atomic<LogLevel> threshold{LogLevel::info};
std::atomic<int> log_fd{STDERR_FILENO};
std::atomic<int> relay_fd{-1};
std::atomic<std::uint64_t> lost_lines{0};
// Bytes that went into the relay, and those that it has written.
std::atomic<std::uint64_t> relay_taken{0};
std::atomic<std::uint64_t> relay_done{0};
thread_local bool must_not_wait = false;
} // namespace

void set_log_fd(int fd) {
    log_fd.store(fd);
}

void set_log_level(LogLevel level) {
    threshold.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
    return level <= threshold.load(std::memory_order_relaxed);
}

namespace {

/// How much of it was taken.
std::size_t write_some(int fd, std::string_view text) {
    const ssize_t written = write(fd, text.data(), text.size());
    return static_cast<std::size_t>(std::max<ssize_t>(written, 0));
}

void write_line(std::string_view prefix, std::string_view text) {
    // Lines have names of files, symbols and processes in them.
    std::string line = std::string(prefix) + printable(text) + '\n';
    std::string_view left = line;
    if (const int fd = log_fd.load(); fd != STDERR_FILENO) {
        left.remove_prefix(write_some(fd, left));
    }
    if (left.empty()) {
        return;
    }
    const int relay = relay_fd.load();
    if (relay >= 0 && must_not_wait) {
        if (left.size() > PIPE_BUF) { // which pipe(7) takes whole, or not at all
            line = std::string(left.substr(0, PIPE_BUF - 1)) + '\n';
            left = line;
        }
        const std::size_t taken = write_some(relay, left);
        relay_taken.fetch_add(taken);
        lost_lines.fetch_add(taken == 0 ? 1 : 0);
        return;
    }
    const OutputWait wait;
    // Lines of one thread that wait for another's stay in order: scripts read them.
    const std::uint64_t before = relay >= 0 ? relay_taken.load() : 0;
    for (std::uint64_t done = relay_done.load(); relay >= 0 && done < before;
         done = relay_done.load()) {
        relay_done.wait(done);
    }
    // A closed stderr (the terminal went away) must not keep us from restoring the target.
    write_some(STDERR_FILENO, left);
}

} // namespace

void announce(std::string_view text) {
    write_line("memleax: ", text);
}

void log_line(LogLevel level, std::string_view text) {
    static constexpr std::string_view prefixes[] = {
        "memleax: error: ", "memleax: warning: ", "memleax: ", "memleax: debug: "};
    if (log_enabled(level)) {
        write_line(prefixes[static_cast<int>(level)], text);
    }
}

void log_without_waiting() {
    must_not_wait = true;
}

LogRelay::LogRelay() {
    constexpr int kRoom = 1 << 20; // more than that needs CAP_SYS_RESOURCE (pipe(7))
    if (pipe2(fds_, O_CLOEXEC) != 0) {
        return;
    }
    fcntl(fds_[1], F_SETFL, O_NONBLOCK);
    fcntl(fds_[1], F_SETPIPE_SZ, kRoom);
    relay_taken.store(0);
    relay_done.store(0);
    thread_ = std::thread(run, fds_[0]);
    relay_fd.store(fds_[1]);
}

LogRelay::~LogRelay() {
    relay_fd.store(-1);
    if (thread_.joinable()) {
        const OutputWait wait;
        close(fds_[1]);
        thread_.join();
        close(fds_[0]);
    }
}

void LogRelay::run(int from) {
    std::string text; // whole lines, and what may be the begin of one
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    while ((got = read(from, buffer.data(), buffer.size())) > 0) {
        text.append(buffer.data(), static_cast<std::size_t>(got));
        const std::size_t lines = text.rfind('\n') + 1; // npos + 1 == 0
        write_and_wait(STDERR_FILENO, text.data(), lines);
        text.erase(0, lines);
        relay_done.fetch_add(lines);
        relay_done.notify_all();
        if (const std::uint64_t lost = lost_lines.exchange(0)) {
            const std::string told =
                fmt::format("memleax: warning: {} lost, as nobody read stderr\n",
                            lost == 1 ? "a line was" : fmt::format("{} lines were", lost));
            write_and_wait(STDERR_FILENO, told.data(), told.size());
        }
    }
    write_and_wait(STDERR_FILENO, text.data(), text.size());
}

} // namespace memleax
