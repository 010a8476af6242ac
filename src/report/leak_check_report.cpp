// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/leak_check_report.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "memleax/base/printable.hpp"
#include "memleax/report/readable.hpp"

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

std::vector<LeakRecord> leak_records(const std::vector<HeapBlock>& blocks,
                                     const std::vector<LossClass>& classes) {
    std::map<std::pair<LossClass, std::uint64_t>, LeakRecord> records;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        LeakRecord& record = records[{classes[i], blocks[i].size}];
        record.loss = classes[i];
        record.size = blocks[i].size;
        record.count.add(blocks[i].size);
        if (classes[i] != LossClass::reachable &&
            record.addresses.size() < LeakRecord::kMostAddresses) {
            record.addresses.push_back(blocks[i].address);
        }
    }
    std::vector<LeakRecord> result;
    result.reserve(records.size());
    for (auto& [key, record] : records) {
        result.push_back(std::move(record));
    }
    std::stable_sort(result.begin(), result.end(), [](const LeakRecord& a, const LeakRecord& b) {
        return std::tuple(a.loss, b.count.bytes) < std::tuple(b.loss, a.count.bytes);
    });
    return result;
}

void write_leak_check_text(const LeakCheckReport& report, ReportSink& sink) {
    constexpr double kMsPerSecond = 1000;
    sink.write(fmt::format("leak check of process {} ({}, {}), which stood still for {:.1f} ms\n",
                           report.pid, printable(report.exe), number_of(report.threads, "thread"),
                           report.pause_s * kMsPerSecond));
    if (!report.complete) {
        sink.write(fmt::format("incomplete: {}\nnothing is said of any block\n", report.why));
        return;
    }
    for (const LossClass loss : kAllClasses) {
        const BlockCount& count = report.total(loss);
        sink.write(fmt::format("{:>16}: {:>14} in {}\n", title(loss),
                               bytes_text(static_cast<double>(count.bytes)),
                               number_of(count.blocks, "block")));
    }
    for (const LeakRecord& record : report.records) {
        if (record.loss != LossClass::reachable) {
            sink.write(fmt::format("{}: {} of {} bytes{}\n", title(record.loss),
                                   number_of(record.count.blocks, "block"), record.size,
                                   addresses_text(record)));
        }
    }
}

void write_leak_check_json(const LeakCheckReport& report, ReportSink& sink) {
    Json check;
    check["complete"] = report.complete;
    if (!report.complete) {
        check["why"] = report.why;
    }
    check["pause_s"] = report.pause_s;
    if (report.complete) {
        for (const LossClass loss : kAllClasses) {
            check[describe(loss)] = count_json(report.total(loss));
        }
        check["records"] = Json::array();
        for (const LeakRecord& record : report.records) {
            Json each;
            each["class"] = describe(record.loss);
            each["size"] = record.size;
            each["blocks"] = record.count.blocks;
            each["bytes"] = record.count.bytes;
            if (record.loss != LossClass::reachable) {
                each["addresses"] = Json::array();
                for (const RemoteAddr address : record.addresses) {
                    each["addresses"].push_back(fmt::format("{:#x}", address.value()));
                }
            }
            check["records"].push_back(std::move(each));
        }
    }
    Json document;
    document["memleax"] = {{"version", report.version}};
    document["target"] = {{"pid", report.pid},
                          {"exe", report.exe},
                          {"arch", report.arch},
                          {"threads", report.threads}};
    document["leak_check"] = std::move(check);
    sink.write(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace memleax
