// SPDX-License-Identifier: GPL-3.0-or-later
// Our pages are copied as well (no MADV_DONTFORK), although that costs a call in each child: should
// we die before we get to a child, it lives on with its breakpoints, as the target does.
#include "forked_copy.hpp"

#include <algorithm>
#include <utility>

#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "recorded_pages.hpp"

namespace memleax {

namespace {

/// Those that lie side by side are one; in the order of their last parts.
std::vector<AddrRange> joined(std::vector<AddrRange> ranges) {
    for (std::size_t i = 0; i + 1 < ranges.size();) {
        const auto neighbour =
            std::find_if(ranges.begin() + static_cast<std::ptrdiff_t>(i) + 1, ranges.end(),
                         [one = ranges[i]](const AddrRange& other) {
                             return other.begin == one.end || other.end == one.begin;
                         });
        if (neighbour == ranges.end()) {
            ++i;
            continue;
        }
        *neighbour = {std::min(neighbour->begin, ranges[i].begin),
                      std::max(neighbour->end, ranges[i].end)};
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return ranges;
}

} // namespace

// The code of the handler's page, the last one, is constant: where other bytes are, or none, the
// memory is gone, or is another program's. A page that came since the last look is unknown then,
// and stays in the child, who may have code of its own there.
void OwnPages::look(RemoteMemory& memory, const OwnCodes& own) {
    std::vector<Code> codes;
    for (const AddrRange range : own.ranges()) {
        Code code{range};
        if (memory.try_read_unmasked(RemoteAddr(range.begin), code.begin) == code.begin.size()) {
            codes.push_back(code);
        }
    }
    if (!codes_.empty() && (codes.empty() || codes.back() != codes_.back())) {
        return;
    }
    codes_ = std::move(codes);
    data_ = own.data_ranges();
}

bool OwnPages::knows_all(const OwnCodes& own) const {
    return codes_.size() == own.ranges().size(); // a look reads all of them
}

std::vector<AddrRange> OwnPages::in_copy(Tid child, RemoteMemory& memory) const {
    // The child was copied at some moment, and what was there then may have been something else.
    const auto is_there = [&memory](const Code& code) {
        decltype(code.begin) its{};
        return memory.try_read_unmasked(RemoteAddr(code.range.begin), its) == its.size() &&
               its == code.begin &&
               std::any_of(its.begin(), its.end(), [](std::byte b) { return b != std::byte{0}; });
    };
    // What the first page of code leads to is older than that, and goes after it. What is behind it
    // may have come later (for more threads), perhaps when the child had something else there.
    const bool has_first = !data_.empty() && (codes_.empty() || is_there(codes_.front()));
    const auto first_unsure = data_.begin() + (has_first ? 1 : 0);
    std::vector<AddrRange> all(data_.begin(), first_unsure);
    std::vector<AddrRange> unsure(first_unsure, data_.end());
    if (!unsure.empty()) {
        keep_wiped(child, &unsure);
        all.insert(all.end(), unsure.begin(), unsure.end());
    }
    for (const Code& code : codes_) {
        if (is_there(code)) {
            all.push_back(code.range);
        }
    }
    return joined(std::move(all));
}

namespace {

void note_if_refused(Tid child, const Result<long>& result) {
    if (!result || *result != 0) {
        log_debug("child {}: a page of ours stays mapped", child.value());
    }
}

} // namespace

void clean_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal, Tid child,
                const OwnPages& pages) {
    auto memory = RemoteMemory::open(child);
    const auto restored = memory ? breakpoints.restore_in_copy(*memory, !pages.empty())
                                 : Result<void>(memory.error());
    if (!restored) {
        log_debug("child {}: {}", child.value(), restored.error().message());
    }
    if (!memory) {
        return; // killed
    }
    // The handler's page, by which these calls are made, goes last, by a call of its own.
    const std::uint64_t handler = target.record().handler.begin;
    std::vector<RemoteCall> calls;
    std::optional<AddrRange> last;
    for (const AddrRange range : pages.in_copy(child, *memory)) {
        if (handler != 0 && range.contains(handler)) {
            last = range;
        } else {
            calls.push_back({SYS_munmap, {range.begin, range.size()}});
        }
    }
    trap_signal.action().restore_in_copy(child, *memory, calls);
    if (last) {
        note_if_refused(child, target.system_call_in_copy(child, *memory, SYS_munmap,
                                                          {last->begin, last->size()}));
    }
    trap_signal.restore_mask_in_copy(child);
}

} // namespace memleax
