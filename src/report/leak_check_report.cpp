// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/leak_check_report.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backtrace_texts.hpp"
#include "leak_json.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/report.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kAllClasses{LossClass::definite, LossClass::indirect, LossClass::possible,
                                 LossClass::reachable};

const char* title(LossClass loss) {
    switch (loss) {
    case LossClass::definite:
        return "definitely lost";
    case LossClass::indirect:
        return "indirectly lost";
    case LossClass::possible:
        return "possibly lost";
    case LossClass::reachable:
        return "still reachable";
    }
    return "";
}

Json count_json(const BlockCount& count) {
    return {{"blocks", count.blocks}, {"bytes", count.bytes}};
}

std::string addresses_text(const LeakRecord& record) {
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, record.addresses.size()); ++i) {
        text += fmt::format("{}{:#x}", i == 0 ? " at " : ", ", record.addresses[i].value());
    }
    return text + (record.count.blocks > kMost ? ", ..." : "");
}

std::string record_text(const LeakRecord& record, BacktraceTexts& backtraces) {
    const std::string size = record.size != 0
                                 ? fmt::format(" of {} bytes", record.size)
                                 : fmt::format(", {} bytes in all", record.count.bytes);
    std::string text =
        fmt::format("{}: {}{}{}{}\n", title(record.loss), number_of(record.count.blocks, "block"),
                    size, record.type.empty() ? "" : fmt::format(" ({})", printable(record.type)),
                    addresses_text(record));
    for (const LeakHolder& holder : record.holders) {
        text += fmt::format("    {} held by {}\n", holder.blocks, printable(holder.name));
    }
    if (record.callstack != 0) {
        text += fmt::format("    allocated at CallStack[{}]:\n", record.callstack);
        backtraces.append_to(text, record.frames, record.end);
    }
    return text;
}

/// So many lines of types and of holders; JSON has more of them.
constexpr std::size_t kShownCounts = 10;
constexpr std::size_t kMostCounts = 100;

std::string counts_text(const char* what, const HeapCounts& counts) {
    std::string text;
    for (const auto& [name, count] : largest(counts, kShownCounts)) {
        text += fmt::format("{:>14}  {:>9}  {}\n", bytes_text(static_cast<double>(count.bytes)),
                            count.blocks, printable(name));
    }
    const std::string more =
        counts.size() > kShownCounts ? fmt::format(" ({} of {})", kShownCounts, counts.size()) : "";
    return counts.empty() ? "" : fmt::format("{}{}:\n{}", what, more, text);
}

Json counts_json(const HeapCounts& counts) {
    Json json = Json::array();
    for (const auto& [name, count] : largest(counts, kMostCounts)) {
        json.push_back({{"name", name}, {"blocks", count.blocks}, {"bytes", count.bytes}});
    }
    return json;
}

/// The records are those of one process, or all.
void write_findings(const LeakFindings& findings, const std::vector<LeakRecord>& records,
                    std::optional<std::uint32_t> process, NameStyle style, ReportSink& sink) {
    if (!findings.complete) {
        sink.write(fmt::format("incomplete: {}\nnothing is said of any block\n", findings.why));
        return;
    }
    std::uint64_t blocks = 0;
    for (const BlockCount& count : findings.totals) {
        blocks += count.blocks;
    }
    if (!findings.why.empty()) {
        sink.write(fmt::format("by an earlier look, as the last one failed: {}\n", findings.why));
    }
    const std::string common = common_offset_text(findings);
    sink.write(unlisted_text(findings.unlisted, blocks) + leak_totals_text(findings) + common +
               (common.empty() ? "" : "\n"));
    BacktraceTexts backtraces(4, style);
    for (const LeakRecord& record : records) {
        if (record.loss != LossClass::reachable && (!process || record.process == *process)) {
            sink.write(record_text(record, backtraces));
        }
    }
}

} // namespace

const char* describe(LossClass loss) {
    switch (loss) {
    case LossClass::definite:
        return "definite";
    case LossClass::indirect:
        return "indirect";
    case LossClass::possible:
        return "possible";
    case LossClass::reachable:
        return "reachable";
    }
    return "";
}

std::vector<LeakRecord> leak_records(std::span<const HeapBlock> blocks,
                                     std::span<const LossClass> classes,
                                     std::span<const BlockFacts> facts,
                                     std::vector<LeakRecordKey>* keys,
                                     const std::vector<bool>& left_out) {
    // Of one call stack all sizes go together.
    using Key = std::tuple<LossClass, StackId, std::uint32_t, std::uint64_t>;
    std::map<Key, LeakRecord> records;
    Key last; // blocks that lie side by side mostly are of one record
    LeakRecord* of_last = nullptr;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (!left_out.empty() && left_out[i]) {
            continue;
        }
        const BlockFacts fact = facts.empty() ? BlockFacts{} : facts[i];
        const std::uint64_t size = fact.stack == kNoStack ? blocks[i].size : 0;
        const Key key{classes[i], fact.stack, fact.type, size};
        if (of_last == nullptr || key != last) {
            of_last = &records[key];
            last = key;
        }
        LeakRecord& record = *of_last;
        record.loss = classes[i];
        const bool is_other_size = record.count.blocks > 0 && record.size != blocks[i].size;
        record.size = is_other_size ? 0 : blocks[i].size;
        record.count.add(blocks[i].size);
        if (classes[i] != LossClass::reachable &&
            record.addresses.size() < LeakRecord::kMostAddresses) {
            record.addresses.push_back(blocks[i].address);
        }
    }
    std::vector<std::pair<LeakRecordKey, LeakRecord*>> order;
    order.reserve(records.size());
    for (auto& [key, record] : records) {
        order.emplace_back(LeakRecordKey{std::get<1>(key), std::get<2>(key)}, &record);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.second->loss, b.second->count.bytes) <
               std::tuple(b.second->loss, a.second->count.bytes);
    });
    std::vector<LeakRecord> result;
    result.reserve(order.size());
    for (auto& [key, record] : order) {
        result.push_back(std::move(*record));
        if (keys != nullptr) {
            keys->push_back(key);
        }
    }
    return result;
}

std::string unlisted_text(std::string_view unlisted, std::uint64_t blocks) {
    return unlisted.empty() ? ""
                            : fmt::format("only the {} that were watched are classed: {}\n",
                                          number_of(blocks, "block"), unlisted);
}

std::string common_offset_text(const LeakFindings& findings) {
    if (!findings.common_offset) {
        return "";
    }
    const std::uint64_t all = findings.total(LossClass::possible).blocks;
    return fmt::format(
        "{} possibly lost blocks are pointed to {} bytes behind their begin: most likely whoever "
        "wraps malloc keeps a header there, or they are linked by a member that is there",
        findings.common_offset->blocks == all
            ? fmt::format("all {}", all)
            : fmt::format("{} of {}", findings.common_offset->blocks, all),
        findings.common_offset->bytes);
}

std::string leak_totals_text(const LeakFindings& findings) {
    std::string text;
    for (const LossClass loss : kAllClasses) {
        const BlockCount& count = findings.total(loss);
        text += fmt::format("{:>16}: {:>14} in {}\n", title(loss),
                            bytes_text(static_cast<double>(count.bytes)),
                            number_of(count.blocks, "block"));
    }
    return text;
}

void write_leak_findings(const LeakFindings& findings, NameStyle style, ReportSink& sink) {
    write_findings(findings, findings.records, std::nullopt, style, sink);
}

void write_leak_findings_of(const LeakFindings& findings, const std::vector<LeakRecord>& records,
                            std::uint32_t index, NameStyle style, ReportSink& sink) {
    write_findings(findings, records, index, style, sink);
}

std::string heap_counts_text(const LeakFindings& findings) {
    return findings.complete
               ? counts_text("types of objects", findings.types) +
                     counts_text("holders, by what would be lost without them", findings.holders)
               : "";
}

nlohmann::ordered_json leak_findings_json(const LeakFindings& findings) {
    Json check;
    check["complete"] = findings.complete;
    if (!findings.complete || !findings.why.empty()) {
        check["why"] = findings.why;
    }
    check["pause_s"] = findings.pause_s;
    if (findings.age_s) {
        check["age_s"] = *findings.age_s;
    }
    if (findings.complete) {
        check["scope"] = findings.unlisted.empty() ? "heap" : "watched";
        if (!findings.unread.empty()) {
            check["unread"] = findings.unread;
        }
        if (!findings.unlisted.empty()) {
            check["scope_why"] = findings.unlisted;
        }
        for (const LossClass loss : kAllClasses) {
            check[describe(loss)] = count_json(findings.total(loss));
        }
        if (findings.common_offset) {
            check["possible"]["common_offset"] = {{"offset", findings.common_offset->bytes},
                                                  {"blocks", findings.common_offset->blocks}};
        }
        check["types"] = counts_json(findings.types);
        check["holders"] = counts_json(findings.holders);
        check["records"] = Json::array();
    }
    return check;
}

nlohmann::ordered_json leak_record_json(const LeakRecord& record) {
    Json json;
    json["class"] = describe(record.loss);
    if (record.size != 0) {
        json["size"] = record.size;
    }
    json["blocks"] = record.count.blocks;
    json["bytes"] = record.count.bytes;
    if (!record.type.empty()) {
        json["type"] = record.type;
    }
    if (record.loss != LossClass::reachable) {
        json["addresses"] = Json::array();
        for (const RemoteAddr address : record.addresses) {
            json["addresses"].push_back(fmt::format("{:#x}", address.value()));
        }
    }
    if (record.callstack != 0) {
        json["callstack"] = record.callstack;
        json["frames"] = Json::array();
    }
    if (!record.holders.empty()) {
        json["holders"] = Json::array();
        for (const LeakHolder& holder : record.holders) {
            json["holders"].push_back({{"name", holder.name}, {"blocks", holder.blocks}});
        }
    }
    return json;
}

void write_leak_check_text(const LeakCheckReport& report, ReportSink& sink) {
    constexpr double kMsPerSecond = 1000;
    sink.write(fmt::format("leak check of process {} ({}, {}), which stood still for {:.1f} ms\n",
                           report.pid, printable(report.exe), number_of(report.threads, "thread"),
                           report.pause_s * kMsPerSecond));
    write_leak_findings(report, NameStyle::folded, sink);
    sink.write(heap_counts_text(report));
}

void write_leak_check_json(const LeakCheckReport& report, ReportSink& sink) {
    Json document;
    document["memleax"] = {{"version", report.version}};
    document["target"] = {{"pid", report.pid},
                          {"exe", report.exe},
                          {"arch", report.arch},
                          {"threads", report.threads}};
    document["leak_check"] = leak_findings_json(report);
    if (report.complete) {
        for (const LeakRecord& record : report.records) { // no call stack is known of any
            document["leak_check"]["records"].push_back(leak_record_json(record));
        }
    }
    sink.write(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace memleax
