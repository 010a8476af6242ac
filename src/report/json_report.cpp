// SPDX-License-Identifier: GPL-3.0-or-later
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "frame_json.hpp"
#include "leak_json.hpp"
#include "memleax/report/coverage.hpp"
#include "memleax/report/place_text.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/report/verdict_text.hpp"
#include "memory_json.hpp"
#include "page_fault_json.hpp"
#include "probe_json.hpp"
#include "process_json.hpp"
#include "stack_texts.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

void put_count(Json& object, const std::string& name, BlockCount count) {
    object[name + "_blocks"] = count.blocks;
    object[name + "_bytes"] = count.bytes;
}

Json call_stack_json(const CallStackReport& stack, const Report::Process* process,
                     bool tells_kind) {
    Json json;
    json["id"] = stack.id;
    put_process(json, process);
    if (tells_kind) {
        json["kind"] = describe(stack.kind);
    }
    put_count(json, "expired", stack.expired);
    put_count(json, "free_expired", stack.free_expired);
    put_count(json, "alloc", stack.alloc);
    put_count(json, "free", stack.free);
    put_count(json, "live", stack.live);
    if (stack.untracked.blocks > 0) {
        put_count(json, "untracked", stack.untracked);
        put_count(json, "untracked_expired", stack.untracked_expired);
    }
    if (stack.freed_lifetime) {
        json["freed_lifetime_s"] = {{"min", stack.freed_lifetime->min_s},
                                    {"mean", stack.freed_lifetime->mean_s},
                                    {"max", stack.freed_lifetime->max_s}};
    }
    if (stack.oldest_live_s) {
        json["oldest_live_s"] = *stack.oldest_live_s;
    }
    if (stack.judgement) {
        json["verdict"] = describe(stack.judgement->verdict);
        json["why"] = why(*stack.judgement);
        json["rate"] = {{"blocks_per_s", stack.judgement->blocks_per_s},
                        {"bytes_per_s", stack.judgement->bytes_per_s}};
    }
    if (!stack.intervals.empty()) {
        json["intervals"] = Json::array();
        for (const IntervalReport& interval : stack.intervals) {
            Json each{{"begin_s", interval.begin_s}, {"end_s", interval.end_s}};
            put_count(each, "alloc", interval.alloc);
            put_count(each, "live", interval.live);
            json["intervals"].push_back(std::move(each));
        }
    }
    if (!stack.frames.empty()) {
        const std::size_t where = where_of(stack);
        json["where"] = place_text(*stack.frames.at(where), NameStyle::whole);
        json["where_frame"] = where;
    }
    json["frames"] = Json::array(); // StackTexts fills it
    if (stack.end != StackEnd::outermost) {
        json["stack_end"] = describe(stack.end);
    }
    return json;
}

Json events_json(const Report::Events& events) {
    return {{"alloc", events.alloc},
            {"free", events.free},
            {"realloc", events.realloc},
            {"failed_alloc", events.failed_alloc},
            {"unfollowed_alloc", events.unfollowed_alloc},
            {"unknown_free", events.unknown_free},
            {"double_free", events.double_free},
            {"invalid_free", events.invalid_free},
            {"mismatched_free", events.mismatched_free}};
}

Json unfollowed_json(const UnfollowedReport& report, const Report::Process* process) {
    Json json;
    put_process(json, process);
    json["calls"] = report.calls.blocks;
    json["bytes"] = report.calls.bytes;
    json["reason"] = report.why == Unseen::generated_code ? "generated_code" : "no_breakpoint";
    json["frames"] = frames_json(report.frames);
    if (report.end != StackEnd::outermost) {
        json["stack_end"] = describe(report.end);
    }
    return json;
}

Json error_json(const ErrorReport& report, const Report::Process* process) {
    const MemoryError& error = report.error;
    Json json{{"id", error.number}, {"kind", name_of(error.kind)}, {"count", error.count}};
    put_process(json, process);
    json["call"] = error.by_realloc ? "realloc" : "free";
    json["tid"] = error.tid.value();
    json["address"] = fmt::format("0x{:x}", error.address.value());
    if (error.block.value() != 0) {
        json["block"] = fmt::format("0x{:x}", error.block.value());
    }
    if (error.size != 0) {
        json["size"] = error.size;
    }
    json["frames"] = frames_json(report.here);
    if (!report.freed_before.empty()) {
        json["freed_before"] = frames_json(report.freed_before);
    }
    if (!report.allocated.empty()) {
        json["allocated"] = frames_json(report.allocated);
    }
    return json;
}

void put_status(Json& json, const std::optional<int>& wait_status) {
    if (!wait_status) {
        return;
    }
    if (WIFSIGNALED(*wait_status)) {
        json["signal"] = WTERMSIG(*wait_status);
    } else {
        json["exit_status"] = WEXITSTATUS(*wait_status);
    }
}

/// With the status of the process, where there is one only: of several each has its own.
Json session_json(const Report& report) {
    const Report::Session& session = report.session;
    Json json{{"engine", session.engine},
              {"duration_s", session.duration_s},
              {"expire_s", session.expire_s},
              {"end_reason", session.end_reason},
              {"events", events_json(session.events)}};
    if (!session.unwinder.empty()) {
        json["unwinder"] = session.unwinder;
    }
    if (session.end_reason == "target-exit" && !report.follows_forks && !report.processes.empty()) {
        put_status(json, report.processes.front().status);
    }
    if (!session.saved_because.empty()) {
        json["saved_because"] = session.saved_because;
    }
    if (session.calls.all != 0) {
        Json why = Json::object();
        for (std::size_t i = 0; i < session.calls.why.size(); ++i) {
            if (session.calls.why.at(i) != 0) {
                why[key_of(static_cast<StopReason>(i))] = session.calls.why.at(i);
            }
        }
        json["calls"] = {
            {"all", session.calls.all}, {"stopped", session.calls.stopped}, {"why", why}};
    }
    if (const auto share = session.stops.share()) {
        json["stops"] = {
            {"looks", session.stops.all()}, {"stopped", session.stops.stopped}, {"share", *share}};
    }
    return json;
}

Json totals_json(const Report::Totals& totals) {
    Json json;
    put_count(json, "live", totals.live);
    put_count(json, "expired", totals.expired);
    if (totals.untracked.blocks > 0) {
        put_count(json, "untracked", totals.untracked);
    }
    return json;
}

Json mapped_json(const Report::Mapped& mapped) {
    Json json{{"mapped", mapped.mapped}, {"unmapped", mapped.unmapped}, {"failed", mapped.failed}};
    for (unsigned i = 1; i < kMemoryKinds; ++i) {
        Json& live = json[describe(static_cast<MemoryKind>(i))];
        put_count(live, "live", mapped.live.at(i));
    }
    if (mapped.unexplained) {
        json["unexplained_bytes"] = *mapped.unexplained;
    }
    return json;
}

Json process_json(const Report::Process& process) {
    Json json{{"number", process.number}, {"pid", process.pid}};
    if (process.parent != 0) {
        json["parent_pid"] = process.parent;
    }
    json["comm"] = process.comm;
    json["exe"] = process.exe;
    json["begin_s"] = process.begin_s;
    if (process.end_s) {
        json["end_s"] = *process.end_s;
    }
    put_status(json, process.status);
    json["events"] = events_json(process.events);
    json["totals"] = totals_json(process.totals);
    if (process.mapped) {
        json["mapped"] = mapped_json(*process.mapped);
    }
    if (process.looks) {
        json["memory"] = memory_looks_json(*process.looks);
    }
    if (process.leak_check) {
        json["leak_check"] = leak_findings_json(*process.leak_check);
        json["leak_check"].erase("records"); // they are with those of the others
    }
    return json;
}

/// The process of a call stack, if they are told apart.
const Report::Process* process_of(const Report& report, std::uint32_t process) {
    return report.follows_forks ? &report.processes.at(process) : nullptr;
}

/// A member of the document that has an empty array, and the call stacks that go there; what
/// `json_of` gives of each has an empty array of frames.
template <class Stacks, class JsonOf>
void write_with_stacks(const char* name, const Json& object, const char* array,
                       const Stacks& stacks, JsonOf json_of, ReportSink& sink) {
    const std::string text = text_of(object, 2);
    const std::size_t place = StackTexts::place_in_empty(array, text);
    sink.write(fmt::format("  \"{}\": {}", name, text.substr(0, place)));
    StackTexts texts(6);
    const char* separator = "\n      ";
    for (const auto& stack : stacks) {
        sink.write(separator + texts.text(json_of(stack), stack.frames));
        separator = ",\n      ";
    }
    sink.write((stacks.empty() ? "" : "\n    ") + text.substr(place) + ",\n");
}

} // namespace

void write_json(const Report& report, ReportSink& sink) {
    // Piece by piece: a document of 10^5 call stacks as one Json value takes gigabytes.
    const auto member = [&sink](const char* name, const Json& value) {
        sink.write(fmt::format("  \"{}\": {},\n", name, text_of(value, 2)));
    };
    sink.write("{\n");
    member("memleax", {{"version", report.version}});
    member("target", {{"pid", report.target.pid},
                      {"exe", report.target.exe},
                      {"arch", report.target.arch},
                      {"threads", report.target.threads}});
    member("session", session_json(report));
    member("totals", totals_json(report.totals));
    if (const auto coverage = coverage_of(report)) {
        member("coverage", {{"rss_growth_bytes", coverage->rss_growth},
                            {"watched_bytes", coverage->watched},
                            {"gap", coverage->is_gap}});
    }
    if (!report.follows_forks && !report.processes.empty() && report.processes[0].looks) {
        member("memory", memory_looks_json(*report.processes[0].looks));
    }
    if (report.follows_forks) {
        Json processes = Json::array();
        for (const Report::Process& process : report.processes) {
            processes.push_back(process_json(process));
            if (report.page_faults && processes.size() <= report.page_faults->processes.size()) {
                processes.back()["page_faults"] =
                    fault_totals_json(report.page_faults->processes.at(processes.size() - 1));
                if (report.page_faults->resident) {
                    processes.back()["page_faults"]["resident"] = resident_json(
                        report.page_faults->resident_of_processes.at(processes.size() - 1));
                }
            }
        }
        member("processes", processes);
    }
    if (report.checks || !report.errors.empty()) {
        Json errors = Json::array();
        for (const ErrorReport& error : report.errors) {
            errors.push_back(error_json(error, process_of(report, error.process)));
        }
        member("errors", errors);
    }
    if (!report.unfollowed.empty()) {
        Json unfollowed = Json::array();
        for (const UnfollowedReport& each : report.unfollowed) {
            unfollowed.push_back(unfollowed_json(each, process_of(report, each.process)));
        }
        member("unfollowed", unfollowed);
    }
    if (report.leak_check) {
        Json found = leak_findings_json(*report.leak_check);
        const bool is_of_some = report.follows_forks && !report.leak_check->records.empty();
        if (report.leak_check->complete || is_of_some) {
            found.emplace("records", Json::array());
            write_with_stacks(
                "leak_check", found, "records", report.leak_check->records,
                [&report](const LeakRecord& record) {
                    Json json = leak_record_json(record);
                    put_process(json, process_of(report, record.process));
                    return json;
                },
                sink);
        } else {
            member("leak_check", found);
        }
    }
    if (report.page_faults) {
        write_with_stacks(
            "page_faults", page_faults_json(*report.page_faults), "callstacks",
            report.page_faults->stacks,
            [&report](const FaultStackReport& stack) {
                return fault_stack_json(stack, process_of(report, stack.process));
            },
            sink);
    }
    if (report.probes) {
        member("probes", probes_json(report));
    }
    StackTexts texts(4);
    const auto stacks = [&](const char* name, const std::vector<CallStackReport>& list) {
        sink.write(fmt::format("  \"{}\": [", name));
        const char* separator = "\n    ";
        for (const CallStackReport& stack : list) {
            const Json json = call_stack_json(stack, process_of(report, stack.process),
                                              report.mapped.has_value());
            sink.write(separator + texts.text(json, stack.frames));
            separator = ",\n    ";
        }
        sink.write(list.empty() ? "]" : "\n  ]");
    };
    if (report.mapped) {
        member("mapped", mapped_json(*report.mapped));
        stacks("internal_callstacks", report.internal_callstacks);
        sink.write(",\n");
    }
    stacks("callstacks", report.callstacks);
    sink.write("\n}\n");
}

} // namespace memleax
