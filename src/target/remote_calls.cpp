// SPDX-License-Identifier: GPL-3.0-or-later
#include "remote_calls.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "borrowed_registers.hpp"
#include "critical_section.hpp"
#include "exec_stop.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "remote_session.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

/// Bytes of executable mappings that are looked at in search of a system call instruction; the vDSO
/// comes first and has one, so that more than this is never needed.
constexpr std::size_t kSearchBytes = 1 << 20;

/// Linkers fill the space behind code with zeros, or with breakpoints (lld).
bool is_padding(std::span<const std::byte> bytes) {
    const auto is_filled_with = [bytes](const auto& pattern) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (bytes[i] != std::byte{pattern[i % pattern.size()]}) {
                return false;
            }
        }
        return true;
    };
    return is_filled_with(std::array<std::uint8_t, 1>{0}) || is_filled_with(arch::kPaddingBytes);
}

/// The end of an executable mapping of a file that holds nothing, as the code ends before the page
/// does: nobody ever gets there.
constexpr std::size_t kEnough = 16;

bool is_padding(RemoteMemory& memory, CodeAddr at) {
    std::array<std::byte, kEnough> bytes{};
    return memory.try_read(at.as_data(), bytes) == bytes.size() && is_padding(bytes);
}

std::optional<CodeAddr> find_padding(const std::vector<Mapping>& mappings, RemoteMemory& memory) {
    for (const Mapping& mapping : mappings) {
        if (!mapping.executable || !mapping.readable || mapping.writable || mapping.shared ||
            mapping.path.empty() || mapping.path[0] != '/') {
            continue;
        }
        const CodeAddr at(mapping.range.end - kEnough);
        if (is_padding(memory, at)) {
            return at;
        }
    }
    return std::nullopt;
}

Result<CodeAddr> find_syscall_instruction(Tid pid, RemoteMemory& memory) {
    auto maps = read_maps(pid);
    if (!maps) {
        return std::move(maps).error();
    }
    const auto search = [&memory](const Mapping& mapping) -> std::optional<CodeAddr> {
        std::vector<std::byte> bytes(std::min<std::uint64_t>(mapping.range.size(), kSearchBytes));
        bytes.resize(memory.try_read(mapping.range.start(), bytes));
        for (std::size_t i = 0; i + arch::kSyscallBytes.size() <= bytes.size();
             i += arch::kInstructionAlignment) {
            if (std::equal(arch::kSyscallBytes.begin(), arch::kSyscallBytes.end(),
                           bytes.begin() + i,
                           [](std::uint8_t a, std::byte b) { return std::byte{a} == b; })) {
                return CodeAddr(mapping.range.begin + i);
            }
        }
        return std::nullopt;
    };
    std::stable_partition(maps->begin(), maps->end(),
                          [](const Mapping& mapping) { return mapping.path == "[vdso]"; });
    for (const Mapping& mapping : *maps) {
        if (mapping.executable && mapping.readable) {
            if (const auto found = search(mapping)) {
                return *found;
            }
        }
    }
    return Error(fmt::format("process {} has no system call instruction to borrow", pid.value()));
}

Error foreign_code(Tid tid) {
    return Error(fmt::format("thread {} executes code of another instruction set", tid.value()),
                 ENOEXEC);
}

} // namespace

Result<long> RemoteCalls::perform(Tid tid, long number,
                                  std::initializer_list<std::uint64_t> arguments) {
    return perform(tid, target_.pid(), target_.memory(), page_, number,
                   std::span(arguments.begin(), arguments.size()));
}

// Our page is in a forked child, too.
std::optional<RemoteCalls::OwnPage> RemoteCalls::page_in(RemoteMemory& copy) const {
    std::array<std::uint8_t, arch::kParkingBytes.size()> there{};
    const bool is_there = page_ &&
                          copy.try_read(page_->parking().start(),
                                        std::as_writable_bytes(std::span(there))) == there.size() &&
                          there == arch::kParkingBytes;
    return is_there ? page_ : std::nullopt;
}

Result<long> RemoteCalls::perform_in_copy(Tid tid, RemoteMemory& memory, long number,
                                          std::initializer_list<std::uint64_t> arguments) {
    const std::span<const std::uint64_t> as_span(arguments.begin(), arguments.size());
    const bool goes = page_ && number == SYS_munmap &&
                      AddrRange::at(RemoteAddr(as_span[0]), as_span[1]).contains(page_->begin);
    return perform(tid, tid, memory, goes ? std::nullopt : page_in(memory), number, as_span);
}

Result<std::vector<long>> RemoteCalls::perform_in_copy(Tid tid, RemoteMemory& memory,
                                                       std::span<const RemoteCall> calls) {
    const auto page = page_in(memory);
    if (!page) {
        std::vector<long> results;
        for (const RemoteCall& call : calls) {
            auto result = perform(tid, tid, memory, std::nullopt, call.number, call.arguments);
            if (!result) {
                return std::move(result).error();
            }
            results.push_back(*result);
        }
        return results;
    }
    auto session = begin(tid, tid, memory, page, calls.empty() ? 0 : calls[0].number);
    if (!session) {
        return std::move(session).error();
    }
    auto results = (*session)->call_all(*page, calls);
    if (!(*session)->give_back()) {
        return thread_ended(tid);
    }
    return results;
}

Result<std::unique_ptr<RemoteSession>> RemoteCalls::begin(Tid tid, Tid process,
                                                          RemoteMemory& memory,
                                                          std::optional<OwnPage> page,
                                                          long number) {
    auto ready = prepare(tid);
    if (!ready) {
        return std::move(ready).error();
    }
    // Else its signal, or our breakpoint's, would be delivered to other registers than its own.
    const bool is_owed = target_.consume_stop(tid);
    arch::Registers saved{};
    if (!StoppedThread(tid).get_registers(&saved) || stands_in_another_program(tid)) {
        return thread_ended(tid);
    }
    if (!arch::executes_native_code(saved)) {
        return foreign_code(tid);
    }
    abort_critical_section(tid, memory, &saved);
    const arch::Registers as_the_kernel_gave_them = saved;
    interrupted_.finish(tid, &saved);
    auto session = std::make_unique<RemoteSession>(target_, stepper_, memory, tid, saved, is_owed);
    BorrowedRegisters& borrowed = session->borrowed();
    if (!page && !(padding_ && is_padding(memory, *padding_))) {
        const auto mappings = read_maps(process);
        padding_ = mappings ? find_padding(*mappings, memory) : std::nullopt;
    }
    if (page) {
        borrowed.use(*page, as_the_kernel_gave_them);
    } else if (padding_) {
        auto patched = borrowed.write_code(*padding_, number, as_the_kernel_gave_them);
        if (!patched) {
            return std::move(patched).error();
        }
    } else {
        auto found = find_syscall_instruction(process, memory);
        if (!found) {
            return std::move(found).error();
        }
        borrowed.use(*found);
    }
    return session;
}

Result<long> RemoteCalls::perform(Tid tid, Tid process, RemoteMemory& memory,
                                  std::optional<OwnPage> page, long number,
                                  std::span<const std::uint64_t> arguments) {
    auto session = begin(tid, process, memory, page, number);
    if (!session) {
        return std::move(session).error();
    }
    auto result = (*session)->call(number, arguments);
    if (!(*session)->give_back()) {
        return thread_ended(tid);
    }
    return result;
}

Result<long> RemoteCalls::perform_clone(Tid tid, std::uint64_t flags,
                                        const std::vector<Mapping>& mappings,
                                        const std::function<void(Tid child)>& with_child) {
    RemoteMemory& memory = target_.memory();
    if (auto ready = prepare(tid); !ready) {
        return std::move(ready).error();
    }
    if (!(padding_ && is_padding(memory, *padding_))) {
        padding_ = find_padding(mappings, memory);
    }
    if (!padding_) {
        return Error("no code has room behind it for a few bytes", ENOTSUP);
    }
    if (target_.consume_stop(tid)) {
        return Error(fmt::format("thread {} is about to get a signal", tid.value()), EAGAIN);
    }
    arch::Registers saved{};
    if (!StoppedThread(tid).get_registers(&saved) || stands_in_another_program(tid)) {
        return thread_ended(tid);
    }
    if (!arch::executes_native_code(saved)) {
        return foreign_code(tid);
    }
    abort_critical_section(tid, memory, &saved);
    const arch::Registers as_the_kernel_gave_them = saved;
    interrupted_.finish(tid, &saved);
    BorrowedRegisters borrowed(target_.record(), memory, tid, saved, target_.stop_signal(tid));
    target_.record().borrowed.number = SYS_clone;
    target_.record().borrowed.mapped_bytes = 0;
    target_.record().borrowed.unmapped = {};
    auto patched = borrowed.write_copying_code(*padding_, as_the_kernel_gave_them);
    if (!patched) {
        return std::move(patched).error();
    }
    arch::Registers regs = saved;
    borrowed.prepare(&regs);
    // The same for each order of arguments: no stack of its own, no ids, no thread area.
    const std::array<std::uint64_t, 5> arguments{flags, 0, 0, 0, 0};
    arch::prepare_system_call(regs, borrowed.instruction(), SYS_clone, arguments);
    arch::prepare_copying(regs);
    if (!StoppedThread(tid).set_registers(regs)) {
        return thread_ended(tid);
    }
    auto made = stepper_.run_clone(tid, borrowed.instruction());
    if (made && made->child.value() != 0) {
        with_child(made->child);
    }
    if (!borrowed.give_back()) {
        return thread_ended(tid);
    }
    if (!made) {
        return std::move(made).error();
    }
    return made->result;
}

Result<void> RemoteCalls::prepare(Tid tid) {
    const TracedThread* thread = threads_.find(tid);
    if (thread == nullptr || !thread->in_system_call) {
        return {};
    }
    MEMLEAX_ASSERT(!thread->in_vfork);
    auto settled = stepper_.settle(tid);
    if (settled) {
        threads_[tid].in_system_call = false;
    }
    return settled;
}

bool RemoteCalls::stands_in_another_program(Tid tid) const {
    const TracedThread* thread = threads_.find(tid);
    return thread != nullptr && !thread->in_system_call && is_in_exec_stop(tid);
}

} // namespace memleax
