// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/guardian.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/base/thread_priority.hpp"
#include "memleax/engine/recovery.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

namespace {

// Its descriptors.
constexpr int kFile = RecoveryFile::kGuardiansDescriptor;
constexpr int kChannel = 4;

ssize_t read_byte(int fd, char* byte) {
    ssize_t got = 0;
    while ((got = read(fd, byte, 1)) < 0 && errno == EINTR) {
    }
    return got;
}

/// Somebody may have stopped it (SIGSTOP): it is then waited for no longer than that, when it is to
/// begin, on a machine that is loaded, and when it is to end.
constexpr int kMostMsUntilReady = 60'000;
constexpr int kMostMsUntilItEnds = 5000;

class SpawnPlan {
  public:
    SpawnPlan(int file, int channel) {
        posix_spawn_file_actions_init(&actions_);
        // First out of the way of each other, to numbers that neither has, then into place; dup2
        // clears FD_CLOEXEC.
        const int file_aside = other_number(kChannel + 1, file, channel);
        const int channel_aside = other_number(file_aside + 1, file, channel);
        posix_spawn_file_actions_adddup2(&actions_, file, file_aside);
        posix_spawn_file_actions_adddup2(&actions_, channel, channel_aside);
        posix_spawn_file_actions_adddup2(&actions_, file_aside, kFile);
        posix_spawn_file_actions_adddup2(&actions_, channel_aside, kChannel);
        posix_spawn_file_actions_addclose(&actions_, file_aside);
        posix_spawn_file_actions_addclose(&actions_, channel_aside);
        // It must not keep the user's pipes open. Where there is no /dev (a root with nothing but
        // the program), the program itself stands in, which gives and takes nothing of ours either.
        const bool has_null = access("/dev/null", R_OK | W_OK) == 0;
        const char* nothing = has_null ? "/dev/null" : "/proc/self/exe";
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, nothing, O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, nothing,
                                         has_null ? O_WRONLY : O_RDONLY, 0);
        posix_spawnattr_init(&attributes_);
        sigset_t none;
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attributes_, &none);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    }
    ~SpawnPlan() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;

    int run(pid_t* pid) {
        std::string name = kGuardianName;
        const std::array<char*, 2> argv{name.data(), nullptr};
        return posix_spawn(pid, "/proc/self/exe", &actions_, &attributes_, argv.data(), environ);
    }

  private:
    /// The first one from here on that is neither of these.
    static int other_number(int from, int file, int channel) {
        while (from == file || from == channel) {
            ++from;
        }
        return from;
    }

    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

} // namespace

Result<std::unique_ptr<Guardian>> Guardian::start() {
    auto file = RecoveryFile::create();
    if (!file) {
        return std::move(file).error();
    }
    std::array<int, 2> channel{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0) {
        return Error("cannot make a socket", errno);
    }
    pid_t pid = 0;
    const int failure = SpawnPlan((*file)->fd(), channel[1]).run(&pid);
    close(channel[1]);
    if (failure != 0) {
        close(channel[0]);
        return Error("cannot start the guardian process", failure);
    }
    (*file)->set_guardian(pid);
    return std::unique_ptr<Guardian>(new Guardian(*std::move(file), pid, channel[0]));
}

Guardian::~Guardian() {
    close(channel_);
    for (const Patience patience(kMostMsUntilItEnds);
         waitpid(pid_, nullptr, WNOHANG) == 0 && !patience.is_over();) {
        poll(nullptr, 0, 1);
    }
}

bool Guardian::take_duty() {
    char byte = 0;
    pollfd ready{channel_, POLLIN, 0};
    int polled = 0;
    while ((polled = poll(&ready, 1, kMostMsUntilReady)) < 0 && errno == EINTR) {
    }
    if (polled != 1 || read_byte(channel_, &byte) != 1) {
        return false; // it says so when it is ready
    }
    file_->hold();
    on_duty_ = send(channel_, "g", 1, MSG_NOSIGNAL) == 1;
    if (!on_duty_) {
        file_->release();
    }
    return on_duty_;
}

void Guardian::leave_duty() {
    if (on_duty_) {
        on_duty_ = false;
        file_->release();
    }
}

std::optional<int> run_as_guardian(int argc, char** argv) {
    if (argc != 1 || std::strcmp(argv[0], kGuardianName) != 0) {
        return std::nullopt;
    }
    prctl(PR_SET_NAME, kGuardianName);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGTSTP}) {
        std::signal(signal, SIG_IGN);
    }
    for (const int signal : kIgnoredSignals) {
        std::signal(signal, SIG_IGN);
    }
    auto file = RecoveryFile::open(kFile);
    if (!file) {
        return 1; // somebody who calls this program by that name
    }
    // It sleeps, and when it is woken nobody else is there for the targets' breakpoints. Beside
    // four busy processes on two CPUs it waited for a CPU for up to 0.4 s.
    run_before_others();
    for (char byte = 0;;) {
        if (send(kChannel, "r", 1, MSG_NOSIGNAL) != 1 || read_byte(kChannel, &byte) != 1) {
            return 0; // memleax has gone, and nothing of it is in any target
        }
        if ((*file)->wait_for_holders_death()) {
            return restore_all((*file)->in_use()) ? 0 : 1;
        }
    }
}

} // namespace memleax
