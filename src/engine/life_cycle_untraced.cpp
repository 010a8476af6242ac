// SPDX-License-Identifier: GPL-3.0-or-later
// LifeCycle: threads and children of whose birth the kernel tells nobody.
#include <cstddef>
#include <utility>

#include "life_cycle.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"

namespace memleax {

void LifeCycle::look_for_unattended_hit() {
    const MonotonicNs now = monotonic_now();
    if (!look_pause_.is_over(now)) {
        return;
    }
    if (breakpoints_.handler().had_unattended_hit()) {
        on_unattended_hit();
    } else {
        look_pause_.on_nothing(now);
    }
}

// CLONE_UNTRACED: the kernel has told nobody of its birth. From now on it is watched as the others
// are, if it still lives. Blocks are set aside once only: a program that makes such children again
// and again would never have any. The warning says what may be wrong then.
void LifeCycle::on_unattended_hit() {
    engine_->on_unattended_hit();
    breakpoints_.handler().forget_unattended_hit();
    const std::size_t known = target_.threads().size();
    const auto seized = target_.seize_untraced();
    if (!seized) {
        log_debug("{}", seized.error().message());
    }
    look_pause_.on_look(monotonic_now(), seized && target_.threads().size() > known);
    if (std::exchange(told_of_untraced_, true)) {
        return;
    }
    account_.events.on_gap(monotonic_now());
    account_.events.on_earlier_calls(true);
    log_warning("process {} has a thread or child that was hidden from memleax (CLONE_UNTRACED). "
                "Its calls are not seen until memleax has found it: what it leaks is missing, "
                "what it frees looks like a leak, and no double free is reported from now on. "
                "The blocks that were live are set aside",
                target_.pid().value());
}

} // namespace memleax
