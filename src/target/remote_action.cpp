// SPDX-License-Identifier: GPL-3.0-or-later
#include "remote_action.hpp"

#include <csignal>
#include <initializer_list>
#include <span>
#include <utility>

#include <sys/syscall.h>

#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/way_back.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

using Action = RecoveryRecord::SignalAction;

} // namespace

Result<void> exchange_trap_action(Target& target, Tid worker, RemoteMemory& memory,
                                  const Action* set, Action* get) {
    arch::Registers regs{};
    if (!StoppedThread(worker).get_registers(&regs)) {
        return thread_ended(worker);
    }
    // Borrows a few bytes under the thread's stack, and gives them back as they were.
    const RemoteAddr buffer((arch::sp(regs) - arch::kRedZone - WayBack::kArgumentBytes).value() &
                            ~15ULL);
    Action before{};
    if (memory.try_read(buffer, std::as_writable_bytes(std::span(&before, 1))) != sizeof before) {
        return Error("the stack cannot be read", EFAULT);
    }
    if (set != nullptr) {
        auto written = memory.write_object(buffer, *set);
        if (!written) {
            return written;
        }
    }
    constexpr std::uint64_t kMaskBytes = 8;
    const std::initializer_list<std::uint64_t> arguments = {
        SIGTRAP, set != nullptr ? buffer.value() : 0, get != nullptr ? buffer.value() : 0,
        kMaskBytes};
    auto result = &memory == &target.memory()
                      ? target.system_call(worker, SYS_rt_sigaction, arguments)
                      : target.system_call_in_copy(worker, memory, SYS_rt_sigaction, arguments);
    if (result && *result == 0 && get != nullptr) {
        memory.try_read(buffer, std::as_writable_bytes(std::span(get, 1)));
    }
    auto restored = memory.write_object(buffer, before);
    if (!result) {
        return std::move(result).error();
    }
    if (*result != 0) {
        return Error("rt_sigaction in the target", static_cast<int>(-*result));
    }
    return restored;
}

} // namespace memleax
