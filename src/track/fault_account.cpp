// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/fault_account.hpp"

#include <algorithm>

#include <absl/strings/string_view.h>
#include <unistd.h>

namespace memleax {

namespace {

constexpr ResidentPages::Owner kOwn = 0;

} // namespace

// Most call stacks touch one thing or two; one that maps a file for each request touches as many as
// there are requests.
TouchedCount& FaultAccount::touched_of(std::size_t stack, const PageFault& fault) {
    std::vector<TouchedCount>& all = stacks_[stack].touched;
    TouchedIndex& index = touched_[stack];
    const auto next = static_cast<std::uint32_t>(all.size());
    TouchedKind kind = fault.kind;
    if (kind == TouchedKind::file) {
        const absl::string_view name(fault.file.data(), fault.file.size());
        if (const auto known = index.files.find(name); known != index.files.end()) {
            return all[known->second];
        }
        if (index.files.size() < StackFaults::kMostFiles) {
            index.files.emplace(fault.file, next);
            TouchedCount& added = all.emplace_back();
            added.kind = kind;
            added.file = fault.file;
            added.begin = added.end = fault.offset;
            return added;
        }
        kind = TouchedKind::other_files;
    }
    const auto [known, is_new] = index.kinds.try_emplace(kind, next);
    if (is_new) {
        all.emplace_back().kind = kind;
    }
    return all[known->second];
}

void FaultAccount::on_page_faults(std::span<const PageFault> faults) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const auto add = [](const PageFault& fault, auto& to) {
        (fault.major ? to.major : to.minor) += 1;
    };
    for (const PageFault& fault : faults) {
        add(fault, sampled_);
        if (fault.kind == TouchedKind::own) {
            add(fault, own_);
            pages_.on_fault(fault.address, fault.huge, fault.time, kOwn);
            continue;
        }
        const auto [at, is_new] = index_.try_emplace(fault.stack, stacks_.size());
        if (is_new) {
            stacks_.push_back({fault.stack, 0, 0, {}});
            touched_.emplace_back();
        }
        StackFaults& stack = stacks_[at->second];
        pages_.on_fault(fault.address, fault.huge, fault.time,
                        static_cast<ResidentPages::Owner>(at->second) + 1);
        add(fault, stack);
        TouchedCount& touched = touched_of(at->second, fault);
        add(fault, touched);
        if (touched.kind == TouchedKind::file) {
            touched.begin = std::min(touched.begin, fault.offset);
            touched.end = std::max(touched.end, FileOffset(fault.offset.value() + page));
        }
    }
}

void FaultAccount::on_fault_counts(const FaultCounts& since_before) {
    counted_.minor += since_before.minor;
    counted_.major += since_before.major;
    counted_.lost += since_before.lost;
    counted_.user_only |= since_before.user_only;
}

void FaultAccount::on_resident_before(MonotonicNs time,
                                      const std::optional<ResidentMemory>& memory) {
    pages_.begin(time);
    before_ = memory;
    after_.reset();
}

std::optional<StillThere> FaultAccount::still_there() const {
    if (!pages_.is_counting()) {
        return std::nullopt;
    }
    StillThere still{.pages = 0,
                     .own = pages_.pages_of(kOwn),
                     .untold = pages_.untold(),
                     .before = before_,
                     .now = after_};
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
        still.pages += pages_of(i);
    }
    return still;
}

FaultTotals FaultAccount::totals() const {
    FaultTotals totals;
    totals.own = own_.all();
    totals.lost = counted_.lost;
    totals.user_only = counted_.user_only;
    const FaultCounts& all = counted_.lost != 0 ? counted_ : sampled_;
    // The counters may be from a moment ago.
    totals.minor = std::max(all.minor, sampled_.minor) - own_.minor;
    totals.major = std::max(all.major, sampled_.major) - own_.major;
    return totals;
}

} // namespace memleax
