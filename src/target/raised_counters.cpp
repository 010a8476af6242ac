// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/raised_counters.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

using Step = RecoveryRecord::Counter::Step;

constexpr std::uint16_t kMost = std::numeric_limits<std::uint16_t>::max();

std::uint16_t as_counter(unsigned value) {
    return static_cast<std::uint16_t>(value);
}

} // namespace

// The record is written before each step, with what is there before it: whoever finds it can tell
// whether the step was done.
Result<void> RaisedCounters::raise(RemoteAddr address) {
    const bool is_raised = std::any_of(raised_.begin(), raised_.end(),
                                       [address](const Raised& r) { return r.address == address; });
    if (is_raised) {
        return {};
    }
    const auto before = target_.memory().try_read_object<std::uint16_t>(address);
    if (!before) {
        return Error(fmt::format("cannot read the semaphore at {:#x}", address.value()), EFAULT);
    }
    if (*before == kMost) {
        return Error(fmt::format("the semaphore at {:#x} is at its highest", address.value()));
    }
    auto& counters = target_.record().counters;
    const auto unused = std::find_if(counters.begin(), counters.end(), [](const auto& each) {
        return each.step.load(std::memory_order_relaxed) == Step::unused;
    });
    if (unused == counters.end()) {
        return Error("too many semaphores");
    }
    unused->address = address.value();
    unused->before = *before;
    unused->step.store(Step::raising, std::memory_order_release);
    auto written = target_.memory().write_object(address, as_counter(*before + 1U));
    if (!written) {
        unused->step.store(Step::unused, std::memory_order_release);
        return written;
    }
    unused->step.store(Step::raised, std::memory_order_release);
    raised_.push_back({address, *before, static_cast<std::size_t>(unused - counters.begin())});
    return {};
}

void RaisedCounters::adopt() {
    RecoveryRecord& record = target_.record();
    for (std::size_t i = 0; i < record.counters.size(); ++i) {
        RecoveryRecord::Counter& counter = record.counters.at(i);
        const Step step = counter.step.load();
        if (step == Step::unused) {
            continue;
        }
        const RemoteAddr address(counter.address);
        const auto now = target_.memory().try_read_object<std::uint16_t>(address);
        const bool is_before = now && *now == counter.before;
        // In a forked child it may have been lowered (lower_in_copy()), which nobody notes.
        const bool may_be_lowered =
            step == Step::raised && record.is_copy.load() != 0 && now && *now <= counter.before;
        if ((step == Step::raising && is_before) || (step == Step::lowering && !is_before) ||
            may_be_lowered) {
            counter.step.store(Step::unused); // it was not raised yet, or is lowered already
        } else {
            raised_.push_back({address, counter.before, i});
        }
    }
}

void RaisedCounters::lower(const Raised& each) {
    RecoveryRecord::Counter& counter = target_.record().counters.at(each.record);
    const auto now = target_.memory().try_read_object<std::uint16_t>(each.address);
    if (now && *now != 0) {
        counter.before = *now;
        counter.step.store(Step::lowering, std::memory_order_release);
        const auto lowered = target_.memory().write_object(each.address, as_counter(*now - 1U));
        if (!lowered && lowered.error().errnum() != ESRCH) {
            log_error("{}: a semaphore stays raised there", lowered.error().message());
        }
    }
    counter.step.store(Step::unused, std::memory_order_release);
}

void RaisedCounters::lower_all() {
    for (const Raised& each : std::exchange(raised_, {})) {
        lower(each);
    }
}

// The child was copied at some moment, before or after we raised this one. What its parent has now
// is what it has, unless somebody counts there just now.
Result<void> RaisedCounters::lower_in_copy(RemoteMemory& memory) const {
    for (const Raised& each : raised_) {
        const auto its = memory.try_read_object<std::uint16_t>(each.address);
        const auto ours = target_.memory().try_read_object<std::uint16_t>(each.address);
        if (!its || *its == 0 || (its != ours && *its <= each.before)) {
            continue;
        }
        if (auto written = memory.write_object(each.address, as_counter(*its - 1U)); !written) {
            return written;
        }
    }
    return {};
}

void RaisedCounters::forget(AddrRange range) {
    std::erase_if(raised_, [&](const Raised& each) {
        const bool is_gone = range.contains(each.address.value());
        if (is_gone) {
            target_.record().counters.at(each.record).step.store(Step::unused);
        }
        return is_gone;
    });
}

} // namespace memleax
