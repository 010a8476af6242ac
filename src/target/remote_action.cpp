// SPDX-License-Identifier: GPL-3.0-or-later
#include "remote_action.hpp"

#include <cerrno>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/way_back.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

using Action = RecoveryRecord::SignalAction;

void note_refused(Tid worker, std::span<const RemoteCall> calls, const std::vector<long>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (is_errno(results[i])) {
            const Error refused(
                fmt::format("process {}, system call {}", worker.value(), calls[i].number),
                static_cast<int>(-results[i]));
            log_debug("{}", refused.message());
        }
    }
}

/// The first one's result.
Result<long> make_calls(Target& target, Tid worker, RemoteMemory& memory, const RemoteCall& call,
                        std::span<const RemoteCall> also) {
    if (&memory == &target.memory()) {
        MEMLEAX_ASSERT(also.empty());
        const auto& arguments = call.arguments;
        return target.system_call(worker, call.number,
                                  {arguments[0], arguments[1], arguments[2], arguments[3]});
    }
    std::vector<RemoteCall> calls{call};
    calls.insert(calls.end(), also.begin(), also.end());
    auto results = target.system_calls_in_copy(worker, memory, calls);
    if (!results) {
        return std::move(results).error();
    }
    note_refused(worker, calls, *results);
    return results->front();
}

/// Nothing can be set or asked: the others are made all the same.
Error without_memory(Target& target, Tid worker, RemoteMemory& memory,
                     std::span<const RemoteCall> also, Error error) {
    if (!also.empty()) {
        if (const auto results = target.system_calls_in_copy(worker, memory, also)) {
            note_refused(worker, also, *results);
        }
    }
    return error;
}

} // namespace

Result<void> exchange_trap_action(Target& target, Tid worker, RemoteMemory& memory,
                                  const Action* set, Action* get,
                                  std::span<const RemoteCall> also) {
    arch::Registers regs{};
    if (!StoppedThread(worker).get_registers(&regs)) {
        return thread_ended(worker);
    }
    // Borrows a few bytes under the thread's stack, and gives them back as they were.
    static_assert(sizeof(Action) <= WayBack::kArgumentBytes);
    const RemoteAddr buffer = WayBack::argument_place(regs);
    Action before{};
    if (memory.try_read(buffer, std::as_writable_bytes(std::span(&before, 1))) != sizeof before) {
        return without_memory(target, worker, memory, also,
                              Error("the stack cannot be read", EFAULT));
    }
    if (set != nullptr) {
        auto written = memory.write_object(buffer, *set);
        if (!written) {
            return without_memory(target, worker, memory, also, std::move(written).error());
        }
    }
    constexpr std::uint64_t kMaskBytes = 8;
    const RemoteCall call{SYS_rt_sigaction,
                          {SIGTRAP, set != nullptr ? buffer.value() : 0,
                           get != nullptr ? buffer.value() : 0, kMaskBytes}};
    auto result = make_calls(target, worker, memory, call, also);
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
