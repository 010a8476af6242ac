// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/trap_signal.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/syscall.h>

#include "memleax/log.hpp"
#include "memleax/process_info.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kTrapBit = signal_bit(SIGTRAP);
constexpr std::uint64_t kDefault = 0; // SIG_DFL
constexpr std::uint64_t kIgnore = 1;  // SIG_IGN
/// Below this much under the stack pointer nothing of the thread's is kept (x86_64 psABI 3.2.2, the
/// red zone; arm64 has none).
constexpr std::int64_t kRedZone = 128;

} // namespace

Result<void> TrapSignal::install(Tid worker) {
    blocking_.clear();
    suspects_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        const auto info = try_read_process_info(tid);
        if (info && (info->blocked_signals & kTrapBit) != 0) {
            blocking_.emplace(tid, Blocking{info->blocked_signals, false});
            target_.record().set_blocking(tid, info->blocked_signals, false);
        }
    }
    auto done = handler_.map(worker);
    if (!done) {
        return done;
    }
    if (!shares_dispositions(worker)) {
        log_debug("SIGTRAP's handler: only a child that shares the memory can be stopped");
        return {};
    }
    done = exchange(worker, target_.memory(), nullptr, &before_);
    if (!done) {
        return done;
    }
    done = handler_.chain_to(before_);
    if (!done) {
        return done;
    }
    target_.record().handler_before = before_;
    target_.record().handler_in_force.store(1);
    installed_ = true;
    const Action ours = handler_.action(before_);
    done = exchange(worker, target_.memory(), &ours, nullptr);
    unblock_threads();
    return done;
}

void TrapSignal::adopt() {
    const RecoveryRecord& record = target_.record();
    before_ = record.handler_before;
    installed_ = record.handler_in_force.load() != 0;
    for (const auto& entry : record.blocking) {
        if (entry.tid == 0) {
            break;
        }
        // The kernel may have unblocked it, and nobody lived to note that; or it is in our handler,
        // where everything is blocked.
        const Tid tid(entry.tid);
        const auto info = try_read_process_info(tid);
        const bool untouched = info && info->blocked_signals == entry.mask;
        blocking_.emplace(tid, Blocking{entry.mask, !untouched});
    }
}

// The others are unblocked by the kernel when they run into a breakpoint. Each hit that is spared
// that is one fewer moment without a handler.
void TrapSignal::unblock_threads() {
    std::vector<Tid> all;
    for (const auto& [tid, entry] : blocking_) {
        all.push_back(tid);
    }
    for (const Tid tid : all) {
        const auto it = blocking_.find(tid);
        const bool stopped = target_.minds_no_stop(tid) && target_.stop_and_defer(tid) &&
                             !target_.has_temporary_mask(tid);
        const auto mask = stopped ? target_.signal_mask(tid) : std::nullopt;
        if ((mask && (*mask & kTrapBit) == 0) ||
            is_in_own_handler(tid, mask.value_or(it->second.mask))) {
            // It has not blocked it for good, and is not to find it blocked when we have left.
            on_thread_gone(tid);
        } else if (mask == it->second.mask) {
            // Else it has changed its mask since: one in pthread_create or fork has by now.
            set_unblocked(tid, &it->second, true);
            target_.set_signal_mask(tid, it->second.mask & ~kTrapBit);
        }
    }
}

// Frames of handlers that have returned long ago may still be there, above all those of our hits
// after the death of a memleax that was here before.
bool TrapSignal::has_executed_breakpoint(const arch::Registers& regs) const {
    constexpr std::int64_t kSize = arch::kBreakpointBytes.size();
    const CodeAddr at = arch::executed_breakpoint(regs);
    std::array<std::uint8_t, arch::kBreakpointBytes.size()> code{};
    // The handler may have moved the pc behind it already.
    for (const CodeAddr place : {at, at - kSize}) {
        if (target_.memory().try_read(place.as_data(), std::as_writable_bytes(std::span(code))) ==
                code.size() &&
            arch::is_breakpoint(code)) {
            return true;
        }
    }
    return false;
}

// Of a signal's frame on the stack of a thread with this mask. One that was sent has not
// interrupted a breakpoint, nor come to a thread that blocks it; what it brings back is in force
// now as well.
bool TrapSignal::is_frame_of_own_trap(std::span<const std::byte> frame, std::uint64_t mask) const {
    siginfo_t info{};
    std::memcpy(&info, &frame[arch::kSignalFrameInfoOffset], sizeof info);
    if (info.si_signo != SIGTRAP || !arch::looks_like_signal_frame(frame)) {
        return false;
    }
    if (info.si_code <= 0) {
        std::uint64_t before = 0;
        std::memcpy(&before, &frame[arch::kSignalFrameMaskOffset], sizeof before);
        return (before & kTrapBit) == 0 && (before & ~mask) == 0;
    }
    const auto interrupted = arch::registers_from_signal_frame(frame);
    return interrupted && has_executed_breakpoint(*interrupted);
}

// While the target's own handler for SIGTRAP runs, SIGTRAP is blocked. Its frame is on the stack.
bool TrapSignal::is_in_own_handler(Tid tid, std::uint64_t mask) const {
    const auto sp = target_.stack_pointer(tid);
    if (before_.handler <= kIgnore || !sp) {
        return false;
    }
    constexpr std::size_t kMostStack = std::size_t{256} << 10;
    std::vector<std::byte> stack(kMostStack);
    stack.resize(target_.memory().try_read(*sp, stack));
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    for (std::size_t frame = arch::kSignalFrameReturnWord;
         frame + arch::kSignalFrameInfoOffset + sizeof(siginfo_t) <= stack.size(); frame += kWord) {
        if constexpr (arch::kSignalFrameReturnWord != 0) {
            std::uint64_t restorer = 0;
            std::memcpy(&restorer, &stack[frame - arch::kSignalFrameReturnWord], kWord);
            if (restorer != before_.restorer) {
                continue;
            }
        }
        if (is_frame_of_own_trap(std::span(stack).subspan(frame), mask)) {
            return true;
        }
    }
    return false;
}

bool TrapSignal::is_caught(Tid tid) {
    const auto info = try_read_process_info(tid);
    return !info || (info->caught_signals & kTrapBit) != 0;
}

// A child by vfork shares the memory, and not what signals do.
bool TrapSignal::shares_dispositions(Tid worker) const {
    const auto it = target_.threads().find(worker);
    return it != target_.threads().end() && !it->second.is_child_process;
}

void TrapSignal::reinstall(Tid tid) {
    const Action ours = handler_.action(before_);
    const auto put = exchange(tid, target_.memory(), &ours, nullptr);
    if (!put) {
        log_debug("SIGTRAP's handler: {}", put.error().message());
    }
}

void TrapSignal::set_unblocked(Tid tid, Blocking* entry, bool unblocked) {
    entry->unblocked = unblocked;
    target_.record().set_blocking(tid, entry->mask, unblocked);
}

void TrapSignal::on_birth(Tid parent, Tid child) {
    const auto it = blocking_.find(parent);
    if (it != blocking_.end()) {
        const Blocking inherited = it->second;
        const auto added = blocking_.emplace(child, inherited).first;
        set_unblocked(child, &added->second, inherited.unblocked);
    }
}

void TrapSignal::on_thread_gone(Tid tid) {
    suspects_.erase(tid);
    if (blocking_.erase(tid) != 0) {
        target_.record().forget_blocking(tid);
    }
}

void TrapSignal::look_after(Tid tid) {
    bool gone = false;
    const auto it = blocking_.find(tid);
    if (it != blocking_.end() && !it->second.unblocked) {
        set_unblocked(tid, &it->second, true);
        gone = true;
    } else if (hits_until_look_ <= 0 || suspects_.contains(tid)) {
        gone = !is_caught(tid);
        if (gone && suspicion_ > 0) {
            suspects_.insert(tid); // it was there at the last hit
        } else if (gone) {
            suspicion_ = kHitsOfSuspicion;
        }
        hits_until_look_ = suspicion_ > 0 ? 1 : kHitsBetweenLooks;
        suspicion_ -= suspicion_ > 0 ? 1 : 0;
    }
    if (gone && installed_) {
        reinstall(tid);
    }
}

int TrapSignal::before_delivery(Tid tid) {
    if (!installed_) {
        return SIGTRAP;
    }
    const bool forced = target_.is_breakpoint_trap(tid); // the kernel unblocks what it forces
    const auto it = blocking_.find(tid);
    const bool blocks = it != blocking_.end() && it->second.unblocked &&
                        target_.signal_mask(tid) == (it->second.mask & ~kTrapBit);
    if (blocks && !forced) {
        // With the mask back the kernel, about to deliver it, queues it anew (ptrace_signal).
        set_unblocked(tid, &it->second, false);
        target_.set_signal_mask(tid, it->second.mask);
        return SIGTRAP;
    }
    if (before_.handler == kIgnore && !forced) {
        return 0;
    }
    if (before_.handler <= kIgnore || blocks) {
        const Action fatal{kDefault, before_.flags, before_.restorer, before_.mask};
        (void)exchange(tid, target_.memory(), &fatal, nullptr);
    } else if (!is_caught(tid)) {
        reinstall(tid); // a hit in a thread that blocks SIGTRAP has just taken it away
    }
    return SIGTRAP;
}

bool TrapSignal::has_changed_mask(Tid tid) const {
    const auto it = blocking_.find(tid);
    return it != blocking_.end() && it->second.unblocked;
}

Result<void> TrapSignal::restore(Tid worker) {
    for (auto& [tid, entry] : blocking_) {
        // With any other difference than the bit that was cleared the thread has set a mask of its
        // own since, and whether SIGTRAP was in it cannot be known.
        if (entry.unblocked && target_.is_stopped(tid) && !target_.has_temporary_mask(tid) &&
            target_.signal_mask(tid) == (entry.mask & ~kTrapBit)) {
            target_.set_signal_mask(tid, entry.mask);
            set_unblocked(tid, &entry, false);
        }
    }
    if (!installed_) {
        return {};
    }
    if (!shares_dispositions(worker)) {
        return Error("SIGTRAP's handler stays: all wait for a child that shares the memory");
    }
    Action now{};
    auto put = exchange(worker, target_.memory(), &before_, &now);
    if (put && now.handler != kDefault && now.handler != handler_.action(before_).handler) {
        put = exchange(worker, target_.memory(), &now, nullptr); // the target has set another one
    }
    if (!put) {
        return std::move(put).error().while_doing("SIGTRAP's handler could not be put back");
    }
    installed_ = false;
    target_.record().handler_in_force.store(0);
    return {};
}

void TrapSignal::restore_in_copy(Tid child) {
    if (!installed_) {
        return;
    }
    auto memory = RemoteMemory::open(child);
    const auto put = memory ? exchange(child, *memory, &before_, nullptr)
                            : Result<void>(std::move(memory).error());
    if (!put) {
        log_debug("SIGTRAP's disposition in child {}: {}", child.value(), put.error().message());
    }
}

void TrapSignal::restore_after_exec(Tid tid, Tid former) {
    const auto it = blocking_.find(former);
    if (it != blocking_.end() && it->second.unblocked) {
        target_.set_signal_mask(tid, it->second.mask);
    }
    if (installed_ && before_.handler == kIgnore) {
        restore_in_copy(tid);
    }
}

Result<void> TrapSignal::exchange(Tid worker, RemoteMemory& memory, const Action* set,
                                  Action* get) {
    arch::Registers regs{};
    if (!target_.get_registers(worker, &regs)) {
        return thread_ended(worker);
    }
    // Borrows a few bytes under the thread's stack, and gives them back as they were.
    const RemoteAddr buffer((arch::sp(regs) - kRedZone - 64).value() & ~15ULL);
    Action before{};
    if (memory.try_read(buffer, std::as_writable_bytes(std::span(&before, 1))) != sizeof before) {
        return Error("the stack cannot be read", EFAULT);
    }
    const auto as_bytes = [](const Action& action) {
        return std::span(reinterpret_cast<const std::uint8_t*>(&action), sizeof action);
    };
    if (set != nullptr) {
        auto written = memory.write(buffer, as_bytes(*set));
        if (!written) {
            return written;
        }
    }
    constexpr std::uint64_t kMaskBytes = 8;
    const std::initializer_list<std::uint64_t> arguments = {
        SIGTRAP, set != nullptr ? buffer.value() : 0, get != nullptr ? buffer.value() : 0,
        kMaskBytes};
    auto result = &memory == &target_.memory()
                      ? target_.system_call(worker, SYS_rt_sigaction, arguments)
                      : target_.system_call_in_copy(worker, memory, SYS_rt_sigaction, arguments);
    if (result && *result == 0 && get != nullptr) {
        memory.try_read(buffer, std::as_writable_bytes(std::span(get, 1)));
    }
    auto restored = memory.write(buffer, as_bytes(before));
    if (!result) {
        return std::move(result).error();
    }
    if (*result != 0) {
        return Error("rt_sigaction in the target", static_cast<int>(-*result));
    }
    return restored;
}

} // namespace memleax
