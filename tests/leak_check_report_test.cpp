// SPDX-License-Identifier: GPL-3.0-or-later
// The forms of --leak-check's report.
#include "memleax/report/leak_check_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace memleax {
namespace {

LeakCheckReport example() {
    const std::vector<HeapBlock> blocks{{RemoteAddr(0x1010), 24},
                                        {RemoteAddr(0x1030), 24},
                                        {RemoteAddr(0x1050), 1000},
                                        {RemoteAddr(0x2010), 40}};
    const std::vector<LossClass> classes{LossClass::definite, LossClass::definite,
                                         LossClass::definite, LossClass::reachable};
    LeakCheckReport report;
    report.version = "2";
    report.pid = 7;
    report.exe = "/a b";
    report.arch = "x86_64";
    report.threads = 1;
    report.pause_s = 0.0125;
    report.complete = true;
    report.totals[0] = {3, 1048};
    report.totals[3] = {1, 40};
    report.records = leak_records(blocks, classes);
    report.types = {{"shop::Session", {2, 48}}, {"shop::Cart", {1, 1000}}};
    report.holders = {{"g_sessions, shop.cpp", {1, 40}}};
    return report;
}

TEST(LeakCheckReportTest, Text) {
    StringSink sink;
    write_leak_check_text(example(), sink);
    EXPECT_EQ(sink.text, "leak check of process 7 (/a b, 1 thread), which stood still for 12.5 ms\n"
                         " definitely lost:        1.0 KiB in 3 blocks\n"
                         " indirectly lost:            0 B in 0 blocks\n"
                         "   possibly lost:            0 B in 0 blocks\n"
                         " still reachable:           40 B in 1 block\n"
                         "definitely lost: 1 block of 1000 bytes at 0x1050\n"
                         "definitely lost: 2 blocks of 24 bytes at 0x1010, 0x1030\n"
                         "types of objects:\n"
                         "        1000 B          1  shop::Cart\n"
                         "          48 B          2  shop::Session\n"
                         "holders, by what would be lost without them:\n"
                         "          40 B          1  g_sessions, shop.cpp\n");
}

TEST(LeakCheckReportTest, Json) {
    StringSink sink;
    write_leak_check_json(example(), sink);
    const auto json = nlohmann::json::parse(sink.text);
    EXPECT_EQ(json["target"]["pid"], 7);
    const auto& check = json["leak_check"];
    EXPECT_EQ(check["complete"], true);
    EXPECT_EQ(check["pause_s"], 0.0125);
    EXPECT_EQ(check["definite"], (nlohmann::json{{"blocks", 3}, {"bytes", 1048}}));
    EXPECT_EQ(check["possible"], (nlohmann::json{{"blocks", 0}, {"bytes", 0}}));
    EXPECT_EQ(check["types"], nlohmann::json::parse(R"([
        {"name": "shop::Cart", "blocks": 1, "bytes": 1000},
        {"name": "shop::Session", "blocks": 2, "bytes": 48}])"));
    EXPECT_EQ(check["holders"], nlohmann::json::parse(R"([
        {"name": "g_sessions, shop.cpp", "blocks": 1, "bytes": 40}])"));
    ASSERT_EQ(check["records"].size(), 3U);
    EXPECT_EQ(check["records"][1], nlohmann::json::parse(R"({"class": "definite", "size": 24,
        "blocks": 2, "bytes": 48, "addresses": ["0x1010", "0x1030"]})"));
    EXPECT_FALSE(check["records"][2].contains("addresses")) << "it is reachable";
}

TEST(LeakCheckReportTest, SaysWhatPossiblyLostBlocksHaveInCommon) {
    LeakCheckReport report = example();
    report.totals[static_cast<std::size_t>(LossClass::possible)] = {4900, 490000};
    report.common_offset = CommonOffset{16, 4812};
    const auto text = [&report] {
        StringSink sink;
        write_leak_check_text(report, sink);
        return sink.text;
    };
    EXPECT_NE(text().find(" still reachable:           40 B in 1 block\n"
                          "4812 of 4900 possibly lost blocks are pointed to 16 bytes behind their "
                          "begin: most likely whoever wraps malloc keeps a header there, or they "
                          "are linked by a member that is there\n"
                          "definitely lost: 1 block of 1000 bytes"),
              std::string::npos)
        << text();
    StringSink json;
    write_leak_check_json(report, json);
    EXPECT_EQ(nlohmann::json::parse(json.text)["leak_check"]["possible"]["common_offset"],
              (nlohmann::json{{"offset", 16}, {"blocks", 4812}}));
    report.common_offset->blocks = 4900;
    EXPECT_NE(text().find("\nall 4900 possibly lost blocks are pointed to 16 bytes"),
              std::string::npos)
        << text();
}

TEST(LeakCheckReportTest, TheLargestOfManyTypes) {
    LeakCheckReport report = example();
    report.types.clear();
    for (std::uint64_t i = 1; i <= 200; ++i) {
        report.types["T" + std::to_string(i)] = {1, i};
    }
    const std::string text = heap_counts_text(report);
    EXPECT_NE(text.find("types of objects (10 of 200):\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  T191\nholders"), std::string::npos) << text;
    StringSink json;
    write_leak_check_json(report, json);
    const auto types = nlohmann::json::parse(json.text)["leak_check"]["types"];
    ASSERT_EQ(types.size(), 100U);
    EXPECT_EQ(types[99]["name"], "T101");
}

TEST(LeakCheckReportTest, NothingIsSaidOfAnIncompleteOne) {
    LeakCheckReport report = example();
    report.complete = false;
    report.why = "x";
    StringSink text;
    write_leak_check_text(report, text);
    EXPECT_EQ(text.text, "leak check of process 7 (/a b, 1 thread), which stood still for 12.5 ms\n"
                         "incomplete: x\nnothing is said of any block\n");
    StringSink json;
    write_leak_check_json(report, json);
    EXPECT_EQ(nlohmann::json::parse(json.text)["leak_check"],
              nlohmann::json::parse(R"({"complete": false, "why": "x", "pause_s": 0.0125})"));
}

TEST(LeakCheckReportTest, SaysThatOnlyWatchedBlocksAreClassed) {
    LeakCheckReport report = example();
    StringSink whole;
    write_leak_check_json(report, whole);
    const auto heap = nlohmann::json::parse(whole.text)["leak_check"];
    EXPECT_EQ(heap["scope"], "heap");
    EXPECT_FALSE(heap.contains("scope_why"));
    report.unlisted = "the heap cannot be read: malloc is that of x";
    std::uint64_t blocks = 0;
    for (const BlockCount& count : report.totals) {
        blocks += count.blocks;
    }
    StringSink text;
    write_leak_check_text(report, text);
    EXPECT_NE(text.text.find(fmt::format("\nonly the {} blocks that were watched are classed: the "
                                         "heap cannot be read: malloc is that of x\n",
                                         blocks)),
              std::string::npos)
        << text.text;
    StringSink json;
    write_leak_check_json(report, json);
    const auto check = nlohmann::json::parse(json.text)["leak_check"];
    EXPECT_EQ(check["scope"], "watched");
    EXPECT_EQ(check["scope_why"], report.unlisted);
}

} // namespace
} // namespace memleax
