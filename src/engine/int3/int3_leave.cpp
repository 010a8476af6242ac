// SPDX-License-Identifier: GPL-3.0-or-later
// Leaving: the original code goes back, and then everybody is moved out of what was ours.
#include <algorithm>

#include "int3_engine_impl.hpp"
#include "leave/detacher.hpp"

namespace memleax {

void Int3Engine::leave() {
    if (!armed_) {
        return;
    }
    armed_ = false;
    if (target_gone_) {
        breakpoints_.forget_all();
        return;
    }
    Detacher detacher(target_, breakpoints_, trap_signal_, *this, may_be_referenced_);
    detacher.gather_hits();
    restore_code();
    detacher.complete();
    if (detacher.target_ended()) {
        on_all_gone();
    }
}

void Int3Engine::on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    calls_.on_hit(tid, regs, breakpoint, false);
}

void Int3Engine::on_thread_gone(const ThreadGone& gone) {
    calls_.on_thread_gone(gone.tid);
    if (gone.tid == target_.pid()) {
        end_status_ = gone.status;
    }
}

void Int3Engine::restore_code() {
    // Those that begin blocks first: a block must not be counted whose end could not be seen.
    std::vector<Breakpoint*> entries;
    for (Breakpoint* breakpoint : breakpoints_.all()) {
        if (breakpoint->entry >= 0) {
            entries.push_back(breakpoint);
        }
    }
    std::sort(entries.begin(), entries.end(), [this](const Breakpoint* a, const Breakpoint* b) {
        return calls_.entry(a->entry).function->call > calls_.entry(b->entry).function->call;
    });
    for (Breakpoint* breakpoint : entries) {
        breakpoints_.restore(*breakpoint);
    }
    breakpoints_.restore_all();
}

} // namespace memleax
