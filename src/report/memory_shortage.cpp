// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/memory_shortage.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// Of its limit: the next burst may be too much.
constexpr double kNearlyFull = 0.9;
/// A group that was at its limit and is below this has got by with dropping file cache.
constexpr double kHasRoom = 0.8;
/// Of the machine's memory: available.
constexpr double kLittle = 0.05;
/// Percent of the time that tasks wait; what people notice.
constexpr double kWaitsLong = 10;
/// ... and what is no accident.
constexpr double kWaits = 1;

double as_double(const std::optional<std::uint64_t>& value) {
    return static_cast<double>(value.value_or(0));
}

std::string times(std::uint64_t count) {
    return number_of(count, "time");
}

/// What of the process nobody gets back by dropping cache.
std::string own_part(const ProcessUse& process, double of_bytes) {
    if (!process.rss_anon || of_bytes <= 0) {
        return "";
    }
    const double part = as_double(process.rss_anon) + as_double(process.rss_shmem);
    return fmt::format("; this process has {} of what is used",
                       share_text(std::min(part / of_bytes, 1.0)));
}

double waited(const std::optional<MemoryPressure>& pressure, double StalledTime::*over) {
    return pressure && pressure->some ? (*pressure->some).*over : 0;
}

std::string waiting_text(const char* who, double percent) {
    return fmt::format("{} waits for memory: some task did in {} of the last 10 s", who,
                       share_text(percent / 100));
}

std::string group_text(const MemoryLooks& looks) {
    const GroupMemory& before = looks.first.group;
    const GroupMemory& now = looks.last.group;
    // A process that was moved to another group has other counters.
    const bool is_same = before.folder == now.folder;
    const auto since = [is_same](const auto& first, const auto& last) {
        return is_same ? growth_of(first, last).value_or(0) : 0;
    };
    const double used = as_double(now.used());
    const double share = now.limit && *now.limit > 0 ? used / as_double(now.limit) : 0;
    const double percent = waited(now.pressure, &StalledTime::avg10);
    const std::string amount = now.limit ? fmt::format("{} of {} used", share_text(share),
                                                       bytes_text(as_double(now.limit)))
                                         : fmt::format("{} used", bytes_text(used));
    const std::string mine = own_part(looks.last.process, used);
    if (const auto kills = since(before.oom_kills, now.oom_kills); kills > 0) {
        // What is used now is what the others have left.
        return fmt::format("the group was out of memory: the kernel has killed {} of it since the "
                           "attach{}",
                           kills == 1 ? "a process" : fmt::format("{} processes", kills),
                           now.limit ? fmt::format(" (limit {})", bytes_text(as_double(now.limit)))
                                     : "");
    }
    const auto at_limit = since(before.at_limit, now.at_limit);
    if (at_limit > 0 && share >= kHasRoom) {
        return fmt::format("the group is full: {}, {} at its limit since the attach{}", amount,
                           times(at_limit), mine);
    }
    if (at_limit > 0 && percent >= kWaits) {
        return fmt::format("the group is full of file cache that is in use: {} at its limit ({}) "
                           "since the attach, and some task waited in {} of the last 10 s",
                           times(at_limit), bytes_text(as_double(now.limit)),
                           share_text(percent / 100));
    }
    const auto above_high = since(before.above_high, now.above_high);
    if (above_high > 0 && now.high && used >= kHasRoom * as_double(now.high)) {
        return fmt::format("the group is slowed down: {} above memory.high ({}) since the attach, "
                           "{}{}",
                           times(above_high), bytes_text(as_double(now.high)), amount, mine);
    }
    if (share >= kNearlyFull) {
        return fmt::format("the group is nearly full: {}{}", amount, mine);
    }
    return percent >= kWaitsLong ? waiting_text("the group", percent) : "";
}

std::string machine_text(const MemoryLooks& looks) {
    const MachineMemory& now = looks.last.machine;
    const double total = as_double(now.total);
    const double available = as_double(now.available);
    const std::string mine = own_part(looks.last.process, total - available);
    if (now.available && total > 0 && available < kLittle * total) {
        return fmt::format("the machine is short of memory: {} of {} available{}",
                           share_text(available / total), bytes_text(total), mine);
    }
    const double percent = waited(now.pressure, &StalledTime::avg10);
    if (percent >= kWaitsLong) {
        return waiting_text("the machine", percent);
    }
    const auto reclaims =
        growth_of(looks.first.machine.direct_reclaims, now.direct_reclaims).value_or(0);
    if (reclaims > 0 && waited(now.pressure, &StalledTime::avg60) >= kWaits) {
        return fmt::format("the machine reclaims: allocations had to wait for that {} since the "
                           "attach",
                           times(reclaims));
    }
    return "";
}

} // namespace

std::optional<std::uint64_t> growth_of(const std::optional<std::uint64_t>& before,
                                       const std::optional<std::uint64_t>& now) {
    return before && now ? std::optional(*now - std::min(*before, *now)) : std::nullopt;
}

MemoryShortage shortage_of(const MemoryLooks& looks) {
    if (const std::string text = group_text(looks); !text.empty()) {
        return {MemoryShortage::Whose::groups, text};
    }
    if (const std::string text = machine_text(looks); !text.empty()) {
        return {MemoryShortage::Whose::machines, text};
    }
    if (!looks.last.machine.available) {
        return {MemoryShortage::Whose::not_known,
                "whether anybody is short of memory is not known"};
    }
    return {MemoryShortage::Whose::nobodys, "nothing is short of memory"};
}

} // namespace memleax
