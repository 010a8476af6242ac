// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory_json.hpp"

#include <optional>

#include "memleax/report/memory_shortage.hpp"

namespace memleax {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Figure = std::optional<std::uint64_t>;

const char* key_of(MemoryShortage::Whose whose) {
    switch (whose) {
    case MemoryShortage::Whose::nobodys:
        return "nobody";
    case MemoryShortage::Whose::groups:
        return "group";
    case MemoryShortage::Whose::machines:
        return "machine";
    case MemoryShortage::Whose::not_known:
        return "unknown";
    }
    return "?";
}

void put(OrderedJson& json, const char* key, const Figure& value) {
    if (value) {
        json[key] = *value;
    }
}

/// What it is, and by how much it has changed since the attach.
void put_with_change(OrderedJson& json, const std::string& key, const Figure& before,
                     const Figure& now) {
    if (now) {
        json[key] = *now;
    }
    if (now && before) {
        json[key + "_change"] =
            static_cast<std::int64_t>(*now) - static_cast<std::int64_t>(*before);
    }
}

OrderedJson stalled_json(const std::optional<StalledTime>& before, const StalledTime& now) {
    OrderedJson json{{"avg10", now.avg10}, {"avg60", now.avg60}, {"avg300", now.avg300}};
    put_with_change(json, "total_us", before ? Figure(before->total_us) : Figure(), now.total_us);
    return json;
}

void put_pressure(OrderedJson& json, const std::optional<MemoryPressure>& before,
                  const std::optional<MemoryPressure>& now) {
    const MemoryPressure first = before.value_or(MemoryPressure{});
    if (now && now->some) {
        json["pressure"]["some"] = stalled_json(first.some, *now->some);
    }
    if (now && now->full) {
        json["pressure"]["full"] = stalled_json(first.full, *now->full);
    }
}

OrderedJson process_use_json(const ProcessUse& before, const ProcessUse& now) {
    OrderedJson json = OrderedJson::object();
    put_with_change(json, "rss_bytes", before.rss, now.rss);
    put_with_change(json, "rss_anon_bytes", before.rss_anon, now.rss_anon);
    put_with_change(json, "rss_file_bytes", before.rss_file, now.rss_file);
    put_with_change(json, "rss_shmem_bytes", before.rss_shmem, now.rss_shmem);
    put_with_change(json, "swap_bytes", before.swap, now.swap);
    put_with_change(json, "minor_faults", before.minor_faults, now.minor_faults);
    put_with_change(json, "major_faults", before.major_faults, now.major_faults);
    put_with_change(json, "threads", before.threads, now.threads);
    put_with_change(json, "descriptors", before.descriptors, now.descriptors);
    put(json, "oom_score", now.oom_score);
    return json;
}

OrderedJson group_json(const GroupMemory& before, const GroupMemory& now) {
    OrderedJson json = OrderedJson::object();
    if (!now.folder.empty()) {
        json["path"] = now.path;
        json["version"] = now.version_2 ? 2 : 1;
    }
    // In another group others have come and gone.
    const GroupMemory first = before.folder == now.folder ? before : now;
    put_with_change(json, "current_bytes", first.current, now.current);
    put(json, "limit_bytes", now.limit);
    put(json, "high_bytes", now.high);
    put(json, "inactive_file_bytes", now.inactive_file);
    put_with_change(json, "at_limit", first.at_limit, now.at_limit);
    put_with_change(json, "above_high", first.above_high, now.above_high);
    put_with_change(json, "oom", first.out_of_memory, now.out_of_memory);
    put_with_change(json, "oom_kill", first.oom_kills, now.oom_kills);
    put_pressure(json, first.pressure, now.pressure);
    return json;
}

OrderedJson machine_json(const MachineMemory& before, const MachineMemory& now) {
    OrderedJson json = OrderedJson::object();
    put(json, "total_bytes", now.total);
    put_with_change(json, "available_bytes", before.available, now.available);
    put(json, "swap_total_bytes", now.swap_total);
    put_with_change(json, "swap_free_bytes", before.swap_free, now.swap_free);
    put_with_change(json, "slab_bytes", before.slab, now.slab);
    put_with_change(json, "slab_unreclaimable_bytes", before.slab_unreclaimable,
                    now.slab_unreclaimable);
    put_with_change(json, "pages_swapped_in", before.swapped_in, now.swapped_in);
    put_with_change(json, "pages_swapped_out", before.swapped_out, now.swapped_out);
    put_with_change(json, "pages_scanned", before.scanned, now.scanned);
    put_with_change(json, "pages_stolen", before.stolen, now.stolen);
    put_with_change(json, "direct_reclaims", before.direct_reclaims, now.direct_reclaims);
    put_pressure(json, before.pressure, now.pressure);
    return json;
}

} // namespace

nlohmann::ordered_json memory_looks_json(const MemoryLooks& looks) {
    const MemoryShortage shortage = shortage_of(looks);
    OrderedJson json{{"short", key_of(shortage.whose)}, {"verdict", shortage.text}};
    json["process"] = process_use_json(looks.first.process, looks.last.process);
    if (!looks.last.group.folder.empty() || looks.last.group.pressure) {
        json["group"] = group_json(looks.first.group, looks.last.group);
    }
    json["machine"] = machine_json(looks.first.machine, looks.last.machine);
    return json;
}

} // namespace memleax
