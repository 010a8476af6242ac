// SPDX-License-Identifier: GPL-3.0-or-later
#include "page_fault_json.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "process_json.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

Json touched_json(const TouchedCount& touched) {
    const bool is_file = touched.kind == TouchedKind::file;
    Json json{{"what", is_file ? touched.file : describe(touched.kind)}, {"count", touched.all()}};
    if (touched.major != 0) {
        json["major"] = touched.major;
    }
    if (is_file) {
        json["file"] = true;
        json["begin"] = fmt::format("0x{:x}", touched.begin.value());
        json["end"] = fmt::format("0x{:x}", touched.end.value());
    }
    return json;
}

Json memory_json(const ResidentMemory& memory) {
    return {{"rss", memory.rss},   {"anonymous", memory.anonymous},
            {"huge", memory.huge}, {"lazy_free", memory.lazy_free},
            {"swap", memory.swap}, {"memleax", memory.own}};
}

} // namespace

Json fault_totals_json(const FaultTotals& totals) {
    return {{"minor", totals.minor},
            {"major", totals.major},
            {"lost", totals.lost},
            {"memleax", totals.own},
            {"kernel", !totals.user_only}};
}

Json resident_json(const ResidentReport& resident) {
    Json json{{"ours", resident.ours}};
    if (resident.untold != 0) {
        json["untold_pages"] = resident.untold;
    }
    if (resident.before) {
        json["before"] = memory_json(*resident.before);
    }
    if (resident.kernel) {
        json["kernel"] = memory_json(*resident.kernel);
    }
    if (const auto difference = resident.difference()) {
        json["difference"] = *difference;
    }
    return json;
}

Json page_faults_json(const PageFaultReport& faults) {
    Json json = fault_totals_json(faults.totals);
    if (faults.resident) {
        json["resident"] = resident_json(*faults.resident);
    }
    json["callstacks"] = Json::array();
    return json;
}

Json fault_stack_json(const FaultStackReport& stack, const Report::Process* process) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    Json json;
    put_process(json, process);
    json["minor"] = stack.minor;
    json["major"] = stack.major;
    json["touched"] = Json::array();
    for (const TouchedCount& touched : stack.touched) {
        json["touched"].push_back(touched_json(touched));
    }
    if (stack.still_bytes) {
        json["still"] = {{"pages", *stack.still_bytes / page}, {"bytes", *stack.still_bytes}};
    }
    json["frames"] = Json::array();
    if (stack.end != StackEnd::outermost) {
        json["stack_end"] = describe(stack.end);
    }
    return json;
}

} // namespace memleax
