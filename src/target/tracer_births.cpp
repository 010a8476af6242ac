// SPDX-License-Identifier: GPL-3.0-or-later
// Tracer: whose a newborn thread or process is.
#include <algorithm>
#include <map>
#include <optional>

#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/tracer.hpp"
#include "target_parts.hpp"

namespace memleax {

bool Tracer::is_strangers(Tid tid, Tid process) const {
    return tid != process && !owners_.contains(process) &&
           std::none_of(targets_.begin(), targets_.end(),
                        [tid](const Target* target) { return shares_memory(target->pid(), tid); });
}

std::optional<Tracer::Stop> Tracer::decode_birth(Tid tid, int status) {
    const auto expects = std::find_if(targets_.begin(), targets_.end(), [tid](Target* target) {
        return target->parts().births.take_expected(tid);
    });
    auto process = expects;
    std::optional<ProcessInfo> info;
    // Most are threads, and to see that much takes a tenth of the time.
    if (expects == targets_.end() || !is_thread_of((*expects)->pid(), tid)) {
        info = try_read_process_info(tid);
        if (!info) {
            return decode_end(tid); // killed already
        }
        process = std::find_if(targets_.begin(), targets_.end(),
                               [&](Target* target) { return target->pid() == info->tgid; });
    }
    if (process != targets_.end()) { // a thread
        Target& target = **process;
        if (expects == targets_.end()) {
            target.parts().births.note_early(tid);
        }
        target.parts().add_thread(tid);
        const auto event = target.parts().decoder.decode(tid, status);
        return event ? std::optional(Stop{&target, *event}) : std::nullopt;
    }
    if (is_strangers(tid, info->tgid)) {
        let_go(tid, status);
        return std::nullopt;
    }
    if (expects != targets_.end()) {
        return Stop{*expects, (*expects)->parts().decoder.child_stop(tid)};
    }
    if (targets_.size() == 1) {
        targets_[0]->parts().births.note_early(tid);
        return Stop{targets_[0], targets_[0]->parts().decoder.child_stop(tid)};
    }
    // Its memory is a copy of one process's, and who that is its parent will say at once. The
    // kernel's word for its parent may name another (CLONE_PARENT).
    orphans_[tid] = info->parent;
    return std::nullopt;
}

bool Tracer::claim_orphan(Tid child, Target& parent) {
    if (orphans_.erase(child) == 0) {
        return false;
    }
    put_off({&parent, parent.parts().decoder.child_stop(child)});
    return true;
}

void Tracer::claim_last_orphans(Target& parent, bool ends) {
    const std::map<Tid, Tid> orphans = orphans_;
    for (const auto& [child, parents_pid] : orphans) {
        const bool parent_is_known =
            std::any_of(targets_.begin(), targets_.end(),
                        [pid = parents_pid](Target* target) { return target->pid() == pid; });
        if (parents_pid == parent.pid() || (ends && !parent_is_known)) {
            claim_orphan(child, parent);
        }
    }
}

} // namespace memleax
