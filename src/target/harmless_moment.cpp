// SPDX-License-Identifier: GPL-3.0-or-later
#include "harmless_moment.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

/// Transfers that end by themselves so soon are not worth a word.
constexpr std::int64_t kSilentNs = kNsPerSecond / 2;

/// So long it is hoped that all sleep, or compute, at one moment. To find more about each takes
/// longer, and so there are fewer looks.
constexpr std::int64_t kPatientNs = kNsPerSecond;

} // namespace

std::int64_t HarmlessMoment::waited() const {
    return monotonic_now().value() - begun_.value();
}

void HarmlessMoment::pause(OwnStops own) {
    // Gently: the longer it takes the rarer.
    constexpr std::int64_t kShortest = 500'000;
    constexpr std::int64_t kLongest = 20'000'000;
    const std::int64_t ns = std::clamp(waited() / 8, kShortest, kLongest);
    if (Tracer& tracer = target_.parts().tracer; tracer.serves_meanwhile()) {
        const Target* const but = own == OwnStops::left ? &target_ : nullptr;
        interrupted_ = tracer.serve_meanwhile(but, ns) || interrupted_;
        return;
    }
    const timespec pause{0, static_cast<long>(ns)};
    interrupted_ = nanosleep(&pause, nullptr) != 0 || interrupted_;
}

// One that was found asleep in a transfer may be in it still, awake, as its peer keeps up with it.
bool HarmlessMoment::computes(Tid tid) {
    return slept_in_transfers_.contains(tid)
               ? computing_.computes_by_itself(pid_, tid)
               : computing_.computes_in_no_transfer(pid_, tid, descriptors_);
}

bool HarmlessMoment::is_in_transfer(Tid tid, Seen seen) {
    if (seen == Seen::asleep_in_transfer) {
        slept_in_transfers_.insert(tid);
        restless_.forget(tid);
    } else if (seen == Seen::asleep_elsewhere) {
        slept_in_transfers_.erase(tid);
    }
    const bool result = seen == Seen::asleep_in_transfer ||
                        (seen == Seen::running && !computes(tid) &&
                         !(waited() > kPatientNs && restless_.sleeps_elsewhere(tid)));
    if (result) {
        transfers_.insert(tid);
    } else {
        transfers_.erase(tid);
    }
    return result;
}

bool HarmlessMoment::wait_on(OwnStops own) {
    const std::int64_t waited = this->waited();
    if (waited > kMostNs) {
        return false;
    }
    if (whom_.empty() && waited > kSilentNs && !transfers_.empty()) {
        const Tid tid = *transfers_.begin();
        const auto kernel = try_read_kernel_state(pid_, tid);
        whom_ = fmt::format("thread {} of process {} is in {}", tid.value(), pid_.value(),
                            kernel && kernel->system_call ? system_call_name(*kernel->system_call)
                                                          : "a transfer, perhaps");
        log_warning("{}, which memleax would cut short: waiting for its end, at most {} seconds",
                    whom_, kMostNs / kNsPerSecond);
    }
    pause(own);
    return !interrupted_ || on_signal_ == ThreadBorrower::OnSignal::wait_on;
}

Error HarmlessMoment::why_not() const {
    const std::string who =
        whom_.empty() ? fmt::format("each thread of process {} is in a transfer", pid_.value())
                      : whom_;
    if (interrupted_ && on_signal_ != ThreadBorrower::OnSignal::wait_on) {
        return Error(fmt::format("{}, of which memleax did not await the end", who), EINTR);
    }
    return Error(fmt::format("{}, which memleax would cut short", who), EBUSY)
        .with_advice("try again when that is over");
}

} // namespace memleax
