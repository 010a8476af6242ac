// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "memleax/report.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

void put_count(Json& object, const std::string& name, BlockCount count) {
    object[name + "_blocks"] = count.blocks;
    object[name + "_bytes"] = count.bytes;
}

Json frame_json(const SourceFrame& frame) {
    Json json;
    json["pc"] = fmt::format("0x{:x}", frame.pc.value());
    if (!frame.module.empty()) {
        json["module"] = frame.module;
    }
    if (!frame.function.empty()) {
        json["function"] = frame.function;
    }
    if (frame.offset) {
        json["offset"] = *frame.offset;
    }
    if (!frame.file.empty()) {
        json["file"] = frame.file;
    }
    if (frame.line != 0) {
        json["line"] = frame.line;
    }
    if (frame.inlined) {
        json["inlined"] = true;
    }
    return json;
}

Json call_stack_json(const CallStackReport& stack) {
    Json json;
    json["id"] = stack.id;
    put_count(json, "expired", stack.expired);
    put_count(json, "free_expired", stack.free_expired);
    put_count(json, "alloc", stack.alloc);
    put_count(json, "free", stack.free);
    put_count(json, "live", stack.live);
    if (stack.freed_lifetime) {
        json["freed_lifetime_s"] = {{"min", stack.freed_lifetime->min_s},
                                    {"mean", stack.freed_lifetime->mean_s},
                                    {"max", stack.freed_lifetime->max_s}};
    }
    if (stack.oldest_live_s) {
        json["oldest_live_s"] = *stack.oldest_live_s;
    }
    json["frames"] = Json::array();
    for (const SourceFrame& frame : stack.frames) {
        json["frames"].push_back(frame_json(frame));
    }
    if (stack.end != StackEnd::outermost) {
        json["stack_end"] = describe(stack.end);
    }
    return json;
}

} // namespace

std::string json_report(const Report& report) {
    Json json;
    json["memleax"]["version"] = report.version;
    json["target"] = {{"pid", report.target.pid},
                      {"exe", report.target.exe},
                      {"arch", report.target.arch},
                      {"threads", report.target.threads}};
    const Report::Session& session = report.session;
    json["session"] = {{"engine", session.engine},
                       {"duration_s", session.duration_s},
                       {"expire_s", session.expire_s},
                       {"end_reason", session.end_reason},
                       {"events",
                        {{"alloc", session.events.alloc},
                         {"free", session.events.free},
                         {"realloc", session.events.realloc},
                         {"failed_alloc", session.events.failed_alloc},
                         {"unknown_free", session.events.unknown_free},
                         {"double_free", session.events.double_free}}}};
    Json totals;
    put_count(totals, "live", report.totals.live);
    put_count(totals, "expired", report.totals.expired);
    json["totals"] = totals;
    json["callstacks"] = Json::array();
    for (const CallStackReport& stack : report.callstacks) {
        json["callstacks"].push_back(call_stack_json(stack));
    }
    // File names and symbols come from untrusted files and need not be UTF-8.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace memleax
