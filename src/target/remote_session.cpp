// SPDX-License-Identifier: GPL-3.0-or-later
#include "remote_session.hpp"

#include <cerrno>

#include <fmt/format.h>
#include <sys/syscall.h>

#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "thread_ended.hpp"

namespace memleax {

RemoteSession::RemoteSession(Target& target, Stepper& stepper, RemoteMemory& memory, Tid tid,
                             const arch::Registers& own, bool is_owed)
    : target_(target), stepper_(stepper), memory_(memory), tid_(tid), own_(own),
      borrowed_(target.record(), memory, tid, own, target.stop_signal(tid)) {
    if (is_owed) {
        stand_in_.emplace(tid);
    }
}

Result<long> RemoteSession::call(long number, std::span<const std::uint64_t> arguments) {
    RecoveryRecord& record = target_.record();
    record.borrowed.number = number;
    record.borrowed.mapped_bytes = number == SYS_mmap ? arguments[1] : 0;
    const bool unmaps = number == SYS_munmap && &memory_ == &target_.memory();
    record.borrowed.unmapped =
        unmaps ? AddrRange::at(RemoteAddr(arguments[0]), arguments[1]) : AddrRange{};
    auto result = execute(number, arguments);
    if (number == SYS_mmap && result && !is_errno(*result)) {
        record.borrowed.mapped.store(static_cast<std::uint64_t>(*result));
    }
    if (unmaps && result && *result == 0) {
        record.on_unmapped(record.borrowed.unmapped);
    }
    return result;
}

Result<void> RemoteSession::lift_filter() {
    if (!unfiltered_) {
        unfiltered_.emplace(tid_);
    }
    return unfiltered_->ok()
               ? Result<void>()
               : Error(fmt::format("thread {} has a seccomp filter, which memleax may not suspend",
                                   tid_.value()),
                       EPERM)
                     .with_advice("run memleax with CAP_SYS_ADMIN");
}

// The mask not before the registers: should we die in between, the way back restores both.
Result<void> RemoteSession::go_to(const arch::Registers& regs) {
    if (!StoppedThread(tid_).set_registers(regs)) {
        return thread_ended(tid_);
    }
    if (!held_back_) {
        held_back_.emplace(tid_, target_.record(), Steps::no, stand_in_);
    }
    return {};
}

Result<std::vector<long>> RemoteSession::call_all(const RemoteCalls::OwnPage& page,
                                                  std::span<const RemoteCall> calls) {
    std::vector<long> results;
    if (!borrowed_.has_way_back() || calls.size() > arch::kMostCalls) {
        for (const RemoteCall& each : calls) {
            auto result = call(each.number, each.arguments);
            if (!result) {
                return std::move(result).error();
            }
            results.push_back(*result);
        }
        return results;
    }
    if (!stand_in_) {
        stand_in_.emplace(tid_);
    }
    std::vector<arch::TableCall> table;
    for (const RemoteCall& each : calls) {
        table.push_back({each.number, each.arguments});
    }
    table.push_back({arch::kEndOfCalls, {static_cast<std::uint64_t>(stand_in_->number())}});
    const RemoteAddr at = page.begin + arch::kWayBackDataAt + arch::kCallTableAt;
    const auto bytes = std::as_writable_bytes(std::span(table));
    auto ready =
        memory_.write(at, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    if (ready) {
        ready = lift_filter();
    }
    if (!ready) {
        return std::move(ready).error();
    }
    borrowed_.use(page.calls());
    RecoveryRecord::BorrowedThread& entry = target_.record().borrowed;
    entry.number = arch::kEndOfCalls;
    entry.mapped_bytes = 0;
    entry.unmapped = {};
    arch::Registers regs = own_;
    borrowed_.prepare(&regs);
    arch::prepare_system_call(regs, borrowed_.instruction(), arch::kEndOfCalls, {});
    auto made = go_to(regs);
    if (made) {
        made = stepper_.run_calls(tid_, page.calls(), *stand_in_);
    }
    if (!made) {
        return std::move(made).error();
    }
    if (memory_.try_read(at, bytes) != bytes.size()) {
        return thread_ended(tid_);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        results.push_back(table[i].result);
    }
    return results;
}

Result<long> RemoteSession::execute(long number, std::span<const std::uint64_t> arguments) {
    if (auto lifted = lift_filter(); !lifted) {
        return std::move(lifted).error();
    }
    const CodeAddr instruction = borrowed_.instruction();
    arch::Registers regs = own_;
    borrowed_.prepare(&regs);
    arch::prepare_system_call(regs, instruction, number, arguments);
    if (auto gone = go_to(regs); !gone) {
        return std::move(gone).error();
    }
    auto executed = stepper_.run_system_call(tid_, instruction, stand_in_);
    if (!executed) {
        return std::move(executed).error();
    }
    if (!StoppedThread(tid_).get_registers(&regs)) {
        return thread_ended(tid_);
    }
    if (arch::pc(regs) == instruction) {
        return Error(fmt::format("thread {} did not perform a system call", tid_.value()), EAGAIN);
    }
    return arch::system_call_result(regs);
}

bool RemoteSession::give_back() {
    held_back_.reset();
    unfiltered_.reset();
    return borrowed_.give_back();
}

} // namespace memleax
