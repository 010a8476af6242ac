// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/trap_signal.hpp"

#include <csignal>

#include <fmt/format.h>
#include <sys/syscall.h>

#include "memleax/log.hpp"
#include "memleax/process_info.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kTrapBit = 1ULL << (SIGTRAP - 1);
/// Below this much under the stack pointer nothing of the thread's is kept (x86_64 psABI 3.2.2, the
/// red zone; arm64 has none).
constexpr std::int64_t kRedZone = 128;

} // namespace

Result<void> TrapSignal::remember(Tid worker) {
    blocking_.clear();
    disposition_.reset();
    ignored_ = false;
    for (const auto& [tid, thread] : target_.threads()) {
        const auto info = try_read_process_info(tid);
        if (info && (info->blocked_signals & kTrapBit) != 0) {
            blocking_.emplace(tid, info->blocked_signals);
        }
    }
    const auto info = try_read_process_info(worker);
    if (!info || ((info->caught_signals | info->ignored_signals) & kTrapBit) == 0) {
        return {};
    }
    ignored_ = (info->ignored_signals & kTrapBit) != 0;
    Disposition now{};
    auto got = exchange(worker, nullptr, &now);
    if (!got) {
        return got;
    }
    disposition_ = now;
    return {};
}

void TrapSignal::on_birth(Tid parent, Tid child) {
    const auto it = blocking_.find(parent);
    if (it != blocking_.end()) {
        blocking_.emplace(child, std::uint64_t(it->second));
    }
}

void TrapSignal::put_back(Tid tid) {
    const auto it = blocking_.find(tid);
    if (it != blocking_.end()) {
        // With any other difference than the bit that the kernel has cleared the thread has set a
        // mask of its own since, and whether SIGTRAP was in it cannot be known. Many block all
        // signals for a moment only, as pthread_create does.
        if (target_.signal_mask(tid) == (it->second & ~kTrapBit)) {
            target_.set_signal_mask(tid, it->second);
        } else {
            blocking_.erase(it);
        }
    }
    if (!ignored_ && !blocking_.contains(tid)) {
        return;
    }
    if (disposition_) {
        const auto put = exchange(tid, &*disposition_, nullptr);
        if (!put) {
            log_debug("SIGTRAP's disposition: {}", put.error().message());
        }
    }
}

void TrapSignal::restore(Tid worker) {
    const auto info = try_read_process_info(worker);
    if (!disposition_ || !info ||
        ((info->caught_signals | info->ignored_signals) & kTrapBit) != 0) {
        return;
    }
    const auto put = exchange(worker, &*disposition_, nullptr);
    if (!put) {
        log_warning("SIGTRAP's handler could not be put back: {}", put.error().message());
    }
}

Result<void> TrapSignal::exchange(Tid worker, const Disposition* set, Disposition* get) {
    arch::Registers regs{};
    if (!target_.get_registers(worker, &regs)) {
        return Error(fmt::format("thread {} has ended", worker.value()), ESRCH);
    }
    // Borrows a few bytes under the thread's stack, and gives them back as they were.
    const RemoteAddr buffer((arch::sp(regs) - kRedZone - 64).value() & ~15ULL);
    RemoteMemory& memory = target_.memory();
    Disposition before{};
    if (memory.try_read(buffer, before) != before.size()) {
        return Error("the stack cannot be read", EFAULT);
    }
    const auto as_bytes = [](const Disposition& d) {
        return std::span(reinterpret_cast<const std::uint8_t*>(d.data()), d.size());
    };
    if (set != nullptr) {
        auto written = memory.write(buffer, as_bytes(*set));
        if (!written) {
            return written;
        }
    }
    constexpr std::uint64_t kMaskBytes = 8;
    auto result = target_.system_call(worker, SYS_rt_sigaction,
                                      {SIGTRAP, set != nullptr ? buffer.value() : 0,
                                       get != nullptr ? buffer.value() : 0, kMaskBytes});
    if (result && *result == 0 && get != nullptr) {
        memory.try_read(buffer, *get);
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
