// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/trap_handler.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

/// A page of the largest size that Linux has (arm64).
constexpr std::uint64_t kPageBytes = 64ULL * 1024;
/// The code with what the handler reads, and what WayBack writes to.
constexpr std::uint64_t kMappedBytes = kPageBytes + arch::kWayBackDataBytes;
static_assert(arch::kWayBackDataAt == kPageBytes);
/// <asm-generic/signal.h>, <asm/signal.h>; the C library keeps it to itself.
constexpr std::uint64_t kRestorerFlag = 0x04000000;

} // namespace

RemoteAddr TrapHandler::data() const {
    return RemoteAddr(page_.begin + arch::trap_handler_code().data);
}

Result<void> TrapHandler::map(Tid worker) {
    auto mapped = target_.system_call(
        worker, SYS_mmap,
        {0, kMappedBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0});
    if (!mapped) {
        return std::move(mapped).error();
    }
    if (is_errno(*mapped)) {
        return Error(fmt::format("cannot map a page into process {}", target_.pid().value()),
                     static_cast<int>(-*mapped));
    }
    const auto begin = static_cast<std::uint64_t>(*mapped);
    page_ = {begin, begin + kMappedBytes};
    region_count_ = 0;
    target_.record().set_handler(page_);
    target_.record().borrowed.mapped.store(0);
    const arch::TrapHandlerCode code = arch::trap_handler_code();
    auto written = target_.memory().write(RemoteAddr(begin), code.code);
    if (!written) {
        return written;
    }
    target_.parts().calls.set_page({{RemoteAddr(begin)}});
    auto made_writable =
        target_.system_call(worker, SYS_mprotect,
                            {begin + kPageBytes, arch::kWayBackDataBytes, PROT_READ | PROT_WRITE});
    if (!made_writable) {
        return std::move(made_writable).error();
    }
    if (*made_writable != 0) {
        return Error(fmt::format("mprotect in process {}", target_.pid().value()),
                     static_cast<int>(-*made_writable));
    }
    return target_.memory().write_object(RemoteAddr(begin) +
                                             std::int64_t{arch::kWayBackDataAt + arch::kWritableAt},
                                         std::uint8_t{1});
}

void TrapHandler::adopt() {
    page_ = target_.record().handler;
    region_count_ = target_.record().region_count;
    if (mapped()) {
        target_.parts().calls.set_page({{RemoteAddr(page_.begin)}});
    }
}

Result<void> TrapHandler::add_region(AddrRange region) {
    if (!target_.record().add_region(region)) {
        return Error("too many places to watch");
    }
    const std::uint64_t at = data().value() + sizeof(arch::TrapHandlerData);
    auto written =
        target_.memory().write_object(RemoteAddr(at + region_count_ * sizeof region), region);
    if (!written) {
        return written;
    }
    ++region_count_;
    return target_.memory().write_object(
        data() + static_cast<std::int64_t>(offsetof(arch::TrapHandlerData, region_count)),
        region_count_);
}

Result<void> TrapHandler::chain_to(const RecoveryRecord::SignalAction& action) {
    const arch::TrapHandlerData head{action.handler, action.mask, action.flags, region_count_};
    return target_.memory().write_object(data(), head);
}

bool TrapHandler::is_left_by_another() const {
    const auto mappings = read_maps(target_.pid());
    const std::span<const std::uint8_t> code = arch::trap_handler_code().code;
    return mappings && std::any_of(mappings->begin(), mappings->end(), [&](const Mapping& mapping) {
               std::vector<std::uint8_t> there(code.size());
               return mapping.executable && mapping.path.empty() &&
                      !mapping.range.overlaps(page_) &&
                      target_.memory().try_read(mapping.range.start(),
                                                std::as_writable_bytes(std::span(there))) ==
                          there.size() &&
                      std::equal(code.begin(), code.end(), there.begin());
           });
}

RecoveryRecord::SignalAction TrapHandler::action(const RecoveryRecord::SignalAction& before) const {
    const arch::TrapHandlerCode code = arch::trap_handler_code();
    // SIG_DFL and SIG_IGN are 0 and 1.
    const bool has_own = before.handler > 1;
    RecoveryRecord::SignalAction ours{};
    ours.handler = page_.begin + code.entry;
    // Not on an alternate stack, which threads may share (varnish's do), but where a handler of the
    // target's own is: Go's has to be, as goroutines' stacks are small.
    ours.flags = SA_SIGINFO | kRestorerFlag |
                 (has_own ? before.flags & (SA_ONSTACK | SA_RESTART) : SA_RESTART);
    if (!has_own && code.unblocked_restorer != 0) {
        // No system call: a seccomp filter may end the process for rt_sigreturn.
        ours.flags |= SA_NODEFER;
        ours.restorer = page_.begin + code.unblocked_restorer;
        return ours;
    }
    // The target's handler, to which ours only jumps, returns through its own restorer: it may run
    // for longer than our page is there.
    ours.restorer = has_own && (before.flags & kRestorerFlag) != 0 ? before.restorer
                                                                   : page_.begin + code.restorer;
    ours.mask = ~0ULL;
    return ours;
}

RemoteAddr TrapHandler::unattended() const {
    return RemoteAddr(page_.begin) + std::int64_t{arch::kWayBackDataAt + arch::kUnattendedAt};
}

bool TrapHandler::had_unattended_hit() const {
    return mapped() &&
           target_.memory().try_read_object<std::uint8_t>(unattended()).value_or(0) != 0;
}

void TrapHandler::forget_unattended_hit() {
    (void)target_.memory().write_object(unattended(), std::uint8_t{0});
}

bool TrapHandler::may_be_saved() const {
    return target_.record().handler_may_be_saved.load() != 0;
}

Result<void> TrapHandler::unmap(Tid worker) {
    if (!mapped()) {
        return {};
    }
    if (may_be_saved()) {
        log_warning("the target has set SIGTRAP's action by a system call that memleax did not "
                    "see, and may have kept the one that was there meanwhile: its page ({:#x}) "
                    "stays mapped, and does no harm",
                    page_.begin);
        return {};
    }
    target_.parts().calls.set_page(std::nullopt);
    auto result = target_.system_call(worker, SYS_munmap, {page_.begin, page_.size()});
    if (!result) {
        return std::move(result).error();
    }
    if (*result != 0) {
        return Error(
            fmt::format("cannot unmap {:#x} in process {}", page_.begin, target_.pid().value()),
            static_cast<int>(-*result));
    }
    forget();
    return {};
}

void TrapHandler::forget() {
    page_ = {};
    region_count_ = 0;
    target_.record().set_handler({});
    target_.parts().calls.set_page(std::nullopt);
}

} // namespace memleax
