// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory_lines.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "memleax/base/printable.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/report/memory_shortage.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

using Figure = std::optional<std::uint64_t>;

double as_double(const Figure& value) {
    return static_cast<double>(value.value_or(0));
}

/// "12.3 MiB (+1.1 MiB)"
std::string with_change(const Figure& now, const Figure& before) {
    if (!now) {
        return "?";
    }
    const std::string text = bytes_text(as_double(now));
    return before ? fmt::format("{} ({})", text, change_text(as_double(now) - as_double(before)))
                  : text;
}

/// What there is to say, of what could be read.
class List {
  public:
    explicit List(std::string begin = "") : text_(std::move(begin)) {}

    void add(const std::string& part) {
        if (!part.empty()) {
            text_ += (text_.empty() || text_.ends_with(": ") ? "" : ", ") + part;
        }
    }
    /// "9.1 MiB anonymous (+1.2 MiB)"
    void add_bytes(const Figure& now, const Figure& before, const char* what) {
        if (now) {
            add(fmt::format(
                "{} {}{}", bytes_text(as_double(now)), what,
                before ? fmt::format(" ({})", change_text(as_double(now) - as_double(before)))
                       : ""));
        }
    }
    /// "12 minor (+3)"
    void add_number(const Figure& now, const Figure& before, const char* what) {
        if (now) {
            const auto change =
                static_cast<std::int64_t>(*now) - static_cast<std::int64_t>(before.value_or(*now));
            add(fmt::format("{} {} ({:+})", *now, what, change));
        }
    }
    /// "pages scanned +120"
    void add_growth(const Figure& now, const Figure& before, const char* what) {
        if (const auto growth = growth_of(before, now)) {
            add(fmt::format("{} +{}", what, *growth));
        }
    }
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    std::string text_;
};

/// "tasks wait 1.2% of the last 10 s, all of them 0.5%"
std::string waiting(const std::optional<MemoryPressure>& pressure) {
    if (!pressure || !pressure->some) {
        return "";
    }
    const std::string some =
        fmt::format("tasks wait {} of the last 10 s", share_text(pressure->some->avg10 / 100));
    return pressure->full
               ? fmt::format("{}, all of them {}", some, share_text(pressure->full->avg10 / 100))
               : some;
}

std::string group_line(const GroupMemory& before, const GroupMemory& now) {
    List list(printable(now.path) + ": ");
    list.add(now.limit ? fmt::format("{} of {} used",
                                     share_text(as_double(now.used()) / as_double(now.limit)),
                                     bytes_text(as_double(now.limit)))
                       : fmt::format("{} used, no limit", bytes_text(as_double(now.used()))));
    if (now.inactive_file) {
        list.add(bytes_text(as_double(now.inactive_file)) + " of unused file cache");
    }
    if (now.high) {
        list.add("slowed down above " + bytes_text(as_double(now.high)));
    }
    list.add_number(now.above_high, before.above_high, "times above that");
    list.add_number(now.at_limit, before.at_limit, "times at the limit");
    list.add_number(now.out_of_memory, before.out_of_memory, "times out of memory");
    list.add_number(now.oom_kills, before.oom_kills, "killed for it");
    list.add(waiting(now.pressure));
    return status_line("group", list.text());
}

std::string machine_line(const MachineMemory& before, const MachineMemory& now) {
    List list;
    if (now.available && now.total) {
        list.add(fmt::format("{} of {} available", bytes_text(as_double(now.available)),
                             bytes_text(as_double(now.total))));
    }
    if (now.swap_total && now.swap_free) {
        list.add(*now.swap_total == 0
                     ? std::string("no swap")
                     : fmt::format("{} of {} of swap used",
                                   bytes_text(as_double(now.swap_total) - as_double(now.swap_free)),
                                   bytes_text(as_double(now.swap_total))));
    }
    if (now.swap_total != Figure(0)) {
        list.add_growth(now.swapped_in, before.swapped_in, "pages swapped in");
        list.add_growth(now.swapped_out, before.swapped_out, "out");
    }
    list.add_growth(now.scanned, before.scanned, "pages scanned");
    list.add_growth(now.stolen, before.stolen, "taken");
    list.add_growth(now.direct_reclaims, before.direct_reclaims, "direct reclaims");
    list.add_bytes(now.slab, before.slab, "of slab");
    list.add(waiting(now.pressure));
    return list.text().empty() ? "" : status_line("machine", list.text());
}

std::string limits_line(const MemoryLook& now) {
    List list(now.process.oom_score ? fmt::format("OOM score {} of 2000", *now.process.oom_score)
                                    : std::string("OOM score unknown"));
    if (const auto first = first_to_be_killed(now.group)) {
        const auto info = try_read_process_info(*first);
        list.add(fmt::format("killed first: {}{}", first->value(),
                             info ? fmt::format(" ({})", printable(info->comm)) : ""));
    }
    list.add(now.group.limit ? "cgroup limit " + bytes_text(as_double(now.group.limit))
                             : "no cgroup limit");
    return status_line("limits", list.text());
}

} // namespace

std::string status_line(const char* name, const std::string& text) {
    return fmt::format("{:<12}{}\n", name, text);
}

std::string pressure_line(const MemoryLooks& looks) {
    return status_line("pressure", shortage_of(looks).text);
}

std::string process_memory_lines(const ProcessMemory& now, const ProcessMemory& before) {
    return status_line(
        "memory",
        fmt::format("RSS {}, PSS {}, private {}, shared {}, swap {} since the begin",
                    with_change(now.rss, before.rss), with_change(now.pss, before.pss),
                    with_change(now.private_bytes, before.private_bytes),
                    with_change(now.shared, before.shared), with_change(now.swap, before.swap)));
}

std::string memory_look_lines(const MemoryLooks& looks) {
    const ProcessUse& before = looks.first.process;
    const ProcessUse& now = looks.last.process;
    List resident;
    resident.add_bytes(now.rss_anon, before.rss_anon, "anonymous");
    resident.add_bytes(now.rss_file, before.rss_file, "of files");
    resident.add_bytes(now.rss_shmem, before.rss_shmem, "of shmem");
    resident.add_number(now.descriptors, before.descriptors, "descriptors");
    resident.add_number(now.threads, before.threads, "threads");
    List faults;
    faults.add_number(now.minor_faults, before.minor_faults, "minor");
    faults.add_number(now.major_faults, before.major_faults, "major");
    std::string text = resident.text().empty() ? "" : status_line("resident", resident.text());
    text += faults.text().empty() ? "" : status_line("faults", faults.text());
    text += limits_line(looks.last);
    if (!looks.last.group.folder.empty()) {
        text += group_line(looks.first.group, looks.last.group);
    }
    return text + machine_line(looks.first.machine, looks.last.machine);
}

} // namespace memleax
