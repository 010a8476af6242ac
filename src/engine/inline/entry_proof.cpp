// SPDX-License-Identifier: GPL-3.0-or-later
#include "entry_proof.hpp"

#include <algorithm>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

void EntryProof::begin(const std::vector<AddrRange>& behind_entries) {
    places_.insert(places_.end(), behind_entries.begin(), behind_entries.end());
    interrupted_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        unproven_.add(tid);
    }
}

bool EntryProof::is_elsewhere(Tid tid, CodeAddr pc, ReferenceSearch& search) const {
    const bool stands_there =
        std::any_of(places_.begin(), places_.end(),
                    [pc](const AddrRange& place) { return place.contains(pc.value()); });
    return !stands_there && (search.leads_past(tid) || !search.find(tid));
}

void EntryProof::look() {
    ReferenceSearch search(target_, places_, [this]() -> Unwinder& { return unwinder_; });
    unproven_.look([&](Tid tid) { return is_proven(tid, search); });
}

bool EntryProof::is_proven(Tid tid, ReferenceSearch& search) {
    if (!target_.threads().contains(tid)) {
        return true;
    }
    if (target_.is_stopped(tid)) {
        return false; // when its stop is dealt with
    }
    const auto before = try_read_kernel_state(target_.pid(), tid);
    if (!before || before->has_ended() || before->is_kernels_worker) {
        return true;
    }
    if (before->state == 'R') {
        if (!interrupted_.contains(tid) && computing_.computes(target_.pid(), tid)) {
            interrupted_.insert(tid);
            target_.interrupt(tid);
        }
        return false;
    }
    return before->system_call && is_elsewhere(tid, before->pc, search) &&
           sleeps_since(target_.pid(), tid, *before);
}

void EntryProof::look_at(Tid tid) {
    if (!unproven_.contains(tid)) {
        return;
    }
    interrupted_.erase(tid);
    ReferenceSearch search(target_, places_, [this]() -> Unwinder& { return unwinder_; });
    arch::Registers regs;
    if (StoppedThread(tid).get_registers(&regs) && is_elsewhere(tid, arch::pc(regs), search)) {
        unproven_.erase(tid);
    }
}

void EntryProof::forget() {
    places_.clear();
    unproven_.clear();
    interrupted_.clear();
}

} // namespace memleax
