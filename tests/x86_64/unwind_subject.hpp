// SPDX-License-Identifier: GPL-3.0-or-later
/// A fixture that is single-stepped, and the truth about its stack, which is kept by watching every
/// call and return: no unwind table is asked.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "arch.hpp"
#include "build_paths.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax::test {

/// Reads a process's memory as it is.
class PlainMemory final : public MemoryReader {
  public:
    explicit PlainMemory(pid_t pid) : pid_(pid) {}
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        std::size_t done = 0;
        while (done < out.size()) { // page by page: process_vm_readv(2) gives whole iovecs only
            const std::uint64_t at = from.value() + done;
            const std::size_t n = std::min<std::size_t>(out.size() - done, 4096 - at % 4096);
            const iovec local{out.data() + done, n};
            const iovec remote{reinterpret_cast<void*>(at), n}; // NOLINT(performance-no-int-to-ptr)
            if (process_vm_readv(pid_, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(n)) {
                break;
            }
            done += n;
        }
        return done;
    }

  private:
    pid_t pid_;
};

/// What the stack must be: return addresses by the addresses that they are stored at. A signal's
/// handler begins a new group, perhaps on another stack.
class ShadowStack {
  public:
    /// `outer` are the frames at the start, innermost first, without the pc itself: where each is
    /// stored is searched from sp on.
    void start(MemoryReader& memory, std::uint64_t sp, const std::vector<std::uint64_t>& outer) {
        groups_.assign(1, {});
        std::vector<Call> calls;
        for (const std::uint64_t ra : outer) {
            while (memory.try_read_object<std::uint64_t>(RemoteAddr(sp)).value_or(ra) != ra) {
                sp += 8;
            }
            calls.push_back({sp, ra});
            sp += 8;
        }
        groups_[0].calls.assign(calls.rbegin(), calls.rend());
    }
    /// One instruction was executed.
    void step(MemoryReader& memory, const arch::Registers& before, const arch::Registers& after) {
        std::uint8_t code[16] = {};
        memory.try_read(RemoteAddr(before.rip), std::as_writable_bytes(std::span(code)));
        if (code[0] == 0x0f && code[1] == 0x05 && before.rax == 15) { // rt_sigreturn
            groups_.pop_back();
            return;
        }
        auto& calls = groups_.back().calls;
        while (!calls.empty() && calls.back().stored_at < after.rsp) {
            calls.pop_back();
        }
        unsigned i = 0; // past the prefixes: notrack, bnd, REX
        while (code[i] == 0x3e || code[i] == 0xf2 || code[i] == 0x66 || (code[i] & 0xf0) == 0x40) {
            ++i;
        }
        const bool is_call = code[i] == 0xe8 || (code[i] == 0xff && ((code[i + 1] >> 3) & 7) == 2);
        if (is_call && after.rsp == before.rsp - 8) {
            calls.push_back({after.rsp, word(memory, after.rsp)});
        }
    }
    /// The kernel has built a frame for a handler.
    void signal(MemoryReader& memory, const arch::Registers& before, const arch::Registers& after) {
        groups_.back().interrupted_pc = before.rip;
        groups_.push_back({{{after.rsp, word(memory, after.rsp)}}, 0});
    }
    [[nodiscard]] std::vector<std::uint64_t> pcs(std::uint64_t pc) const {
        std::vector<std::uint64_t> result{pc};
        for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
            if (group != groups_.rbegin()) {
                result.push_back(group->interrupted_pc);
            }
            for (auto call = group->calls.rbegin(); call != group->calls.rend(); ++call) {
                result.push_back(call->return_address);
            }
        }
        return result;
    }

    /// Are all return addresses still where they were put? A program may write over them: libgcc's
    /// unwinder does so to get to a landing pad.
    [[nodiscard]] bool intact(MemoryReader& memory) const {
        for (const Group& group : groups_) {
            for (const Call& call : group.calls) {
                if (word(memory, call.stored_at) != call.return_address) {
                    return false;
                }
            }
        }
        return true;
    }

  private:
    struct Call {
        std::uint64_t stored_at;
        std::uint64_t return_address;
    };
    struct Group {
        std::vector<Call> calls; ///< outermost first
        std::uint64_t interrupted_pc;
    };
    static std::uint64_t word(MemoryReader& memory, std::uint64_t at) {
        return memory.try_read_object<std::uint64_t>(RemoteAddr(at)).value_or(0);
    }
    std::vector<Group> groups_{1};
};

/// A fixture under ptrace, stopped where it waits for its start. It is killed with this object.
class Subject {
  public:
    Subject(const std::string& fixture, const std::string& kind) {
        int from_child[2];
        int to_child[2];
        if (pipe2(from_child, O_CLOEXEC) != 0 || pipe2(to_child, O_CLOEXEC) != 0) {
            return;
        }
        const std::string path = std::string(MEMLEAX_FIXTURES "/") + fixture;
        leader_ = fork();
        if (leader_ == 0) {
            dup2(to_child[0], STDIN_FILENO);
            dup2(from_child[1], STDOUT_FILENO);
            execl(path.c_str(), path.c_str(), kind.c_str(), nullptr);
            _exit(127);
        }
        close(from_child[1]);
        close(to_child[0]);
        stdin_ = to_child[1];
        char byte = 0;
        started_ = read(from_child[0], &byte, 1) == 1 && byte == 'r';
        close(from_child[0]);
        constexpr long options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE;
        int status = 0;
        started_ = started_ && ptrace(PTRACE_SEIZE, leader_, 0, options) == 0 &&
                   ptrace(PTRACE_INTERRUPT, leader_, 0, 0) == 0 &&
                   waitpid(leader_, &status, __WALL) == leader_ && WIFSTOPPED(status);
    }
    ~Subject() {
        close(stdin_);
        if (leader_ > 0 && !reaped_) {
            kill(leader_, SIGKILL);
            while (waitpid(leader_, nullptr, __WALL) < 0 && errno == EINTR) {
            }
        }
    }
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    [[nodiscard]] bool started() const { return started_; }
    [[nodiscard]] pid_t leader() const { return leader_; }
    bool go() { return write(stdin_, "g", 1) == 1; }

    static arch::Registers registers(pid_t tid) {
        arch::Registers regs{};
        ptrace(PTRACE_GETREGS, tid, 0, &regs);
        return regs;
    }
    /// Executes one instruction, with this signal; the raw status of the stop that follows.
    int step(pid_t tid, int signal) {
        int status = 0;
        ptrace(PTRACE_SINGLESTEP, tid, 0, signal);
        waitpid(tid, &status, __WALL);
        reaped_ = reaped_ || (tid == leader_ && !WIFSTOPPED(status));
        return status;
    }
    void run_on(pid_t tid) { ptrace(PTRACE_CONT, tid, 0, 0); }

  private:
    pid_t leader_ = -1;
    int stdin_ = -1;
    bool started_ = false;
    bool reaped_ = false;
};

} // namespace memleax::test
