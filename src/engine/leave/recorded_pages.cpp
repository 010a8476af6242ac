// SPDX-License-Identifier: GPL-3.0-or-later
#include "recorded_pages.hpp"

#include <vector>

#include "memleax/proc/mapping_flags.hpp"
#include "memleax/proc/maps.hpp"
#include "recorded_handler.hpp"

namespace memleax {

namespace {

/// It may be more than one mapping, or a part of one with its neighbour.
bool is_covered(AddrRange range, const std::vector<AddrRange>& mappings) {
    std::uint64_t covered = 0;
    for (const AddrRange& each : mappings) {
        const AddrRange common = range.common_with(each);
        covered += common.empty() ? 0 : common.size();
    }
    return covered == range.size();
}

/// As our pages are mapped at first, and little else. Our code stays so.
std::vector<AddrRange> anonymous_mappings(Tid pid, bool executable) {
    std::vector<AddrRange> result;
    const auto mappings = read_maps(pid);
    for (const Mapping& each : mappings ? *mappings : std::vector<Mapping>()) {
        if (!each.writable && !each.shared && each.path.empty() &&
            (each.executable || !executable)) {
            result.push_back(each.range);
        }
    }
    return result;
}

/// As our data is.
std::vector<AddrRange> wiped_mappings(Tid pid) {
    return read_flagged_mappings(pid, "wf").value_or(std::vector<AddrRange>());
}

/// True if any is left.
template <typename Ranges, typename IsThere>
bool strike_off_all_but(RecoveryRecord& record, const Ranges& ranges, std::uint32_t count,
                        const IsThere& is_there) {
    bool any_left = false;
    for (std::uint32_t i = 0; i < count; ++i) {
        const AddrRange range = ranges.at(i);
        if (range.empty()) {
            continue;
        }
        if (is_there(range)) {
            any_left = true;
        } else {
            record.on_unmapped(range);
        }
    }
    return any_left;
}

} // namespace

void keep_wiped(Tid pid, std::vector<AddrRange>* data) {
    const auto wiped = wiped_mappings(pid);
    std::erase_if(*data, [&wiped](AddrRange range) { return !is_covered(range, wiped); });
}

bool may_be_ours(Tid pid, AddrRange range) {
    return is_covered(range, anonymous_mappings(pid, false));
}

void forget_what_is_gone(RecoveryRecord& record) {
    const Tid pid = pid_of(record);
    const HandlersPlace place = look_for_handler(pid, record);
    if (place == HandlersPlace::handler && record.is_copy.load() == 0) {
        return; // the memory is what it was, and who unmapped something in it has noted that
    }
    const std::vector<AddrRange> code = anonymous_mappings(pid, true);
    const auto is_code = [&code](AddrRange range) { return is_covered(range, code); };
    if (place == HandlersPlace::something_else ||
        (place == HandlersPlace::nothing_yet && !is_code(record.handler))) {
        forget_handler(record);
    }
    const bool any_slots =
        strike_off_all_but(record, record.regions, record.region_count.load(), is_code);
    const bool any_agent =
        strike_off_all_but(record, record.agent_code, record.agent_code_count.load(), is_code);
    const auto wiped =
        record.agent_data_count.load() != 0 ? wiped_mappings(pid) : std::vector<AddrRange>();
    strike_off_all_but(record, record.agent_data, record.agent_data_count.load(),
                       [&wiped](AddrRange range) { return is_covered(range, wiped); });
    if (place != HandlersPlace::handler && !any_slots && !any_agent) {
        // What is at a semaphore's address, another program has there.
        for (RecoveryRecord::Counter& counter : record.counters) {
            if (counter.step.load() != RecoveryRecord::Counter::Step::unused) {
                counter.step.store(RecoveryRecord::Counter::Step::unused);
            }
        }
    }
}

} // namespace memleax
