// SPDX-License-Identifier: GPL-3.0-or-later
// The profile, read back by protobuf's own reader (profile.proto beside this).
#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "profile.pb.h"
#include "report_support.hpp"

namespace memleax {
namespace {

using test_profile::Profile;
using testing::ElementsAre;
using Strings = std::vector<std::string>;

/// The whole of one gzip member, and nothing behind it.
std::string gunzip(const std::string& compressed) {
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
    stream.avail_in = static_cast<uInt>(compressed.size());
    std::string text;
    int status = Z_OK;
    while (status == Z_OK) {
        std::array<char, 4096> part{};
        stream.next_out = reinterpret_cast<Bytef*>(part.data());
        stream.avail_out = part.size();
        status = inflate(&stream, Z_NO_FLUSH);
        text.append(part.data(), part.size() - stream.avail_out);
    }
    EXPECT_EQ(status, Z_STREAM_END);
    EXPECT_EQ(stream.avail_in, 0U);
    inflateEnd(&stream);
    return text;
}

/// A profile with what its numbers refer to.
struct Parsed {
    Profile profile;
    std::map<std::uint64_t, const test_profile::Location*> locations;
    std::map<std::uint64_t, const test_profile::Function*> functions;

    explicit Parsed(const Report& report) {
        // Strings that are not UTF-8 are refused here.
        EXPECT_TRUE(profile.ParseFromString(gunzip(text_of(write_pprof, report))));
        Profile known = profile;
        known.DiscardUnknownFields();
        EXPECT_EQ(known.ByteSizeLong(), profile.ByteSizeLong());
        for (const auto& location : profile.location()) {
            EXPECT_NE(location.id(), 0U);
            EXPECT_TRUE(locations.emplace(location.id(), &location).second) << location.id();
        }
        for (const auto& function : profile.function()) {
            EXPECT_NE(function.id(), 0U);
            EXPECT_TRUE(functions.emplace(function.id(), &function).second) << function.id();
        }
    }
    [[nodiscard]] const std::string& text(std::int64_t number) const {
        return profile.string_table().at(static_cast<int>(number));
    }
    [[nodiscard]] Strings type(const test_profile::ValueType& type) const {
        return {text(type.type()), text(type.unit())};
    }
    [[nodiscard]] const test_profile::Location& location(int sample, int frame) const {
        return *locations.at(profile.sample(sample).location_id(frame));
    }
    /// "function file:line" of every call of a sample, innermost first.
    [[nodiscard]] Strings calls(int sample) const {
        Strings result;
        for (const std::uint64_t id : profile.sample(sample).location_id()) {
            for (const auto& line : locations.at(id)->line()) {
                const auto& function = *functions.at(line.function_id());
                result.push_back(text(function.name()) + " " + text(function.filename()) + ":" +
                                 std::to_string(line.line()));
            }
        }
        return result;
    }
};

SourceFrame returned_to(SourceFrame frame) {
    frame.is_return_address = true;
    return frame;
}

Report::Module module(std::string path, AddrRange range, std::uint64_t offset = 0,
                      std::string build_id = "") {
    return {std::move(path), std::move(build_id), range, offset};
}

TEST(PprofReport, ValuesAndHead) {
    Report report = sample_report();
    report.session.started_unix_ns = 1'700'000'000'123'456'789;
    const Parsed parsed(report);
    const Profile& profile = parsed.profile;
    EXPECT_EQ(parsed.text(0), "");
    ASSERT_EQ(profile.sample_type_size(), 4);
    EXPECT_EQ(parsed.type(profile.sample_type(0)), (Strings{"alloc_objects", "count"}));
    EXPECT_EQ(parsed.type(profile.sample_type(1)), (Strings{"alloc_space", "bytes"}));
    EXPECT_EQ(parsed.type(profile.sample_type(2)), (Strings{"inuse_objects", "count"}));
    EXPECT_EQ(parsed.type(profile.sample_type(3)), (Strings{"inuse_space", "bytes"}));
    EXPECT_EQ(parsed.type(profile.period_type()), (Strings{"space", "bytes"}));
    EXPECT_EQ(profile.period(), 1);
    EXPECT_EQ(parsed.text(profile.default_sample_type()), "inuse_space");
    ASSERT_EQ(profile.comment_size(), 1);
    EXPECT_EQ(parsed.text(profile.comment(0)), "memleax 2.0.0: process 4711, /usr/bin/test");
    EXPECT_EQ(profile.time_nanos(), 1'700'000'000'123'456'789);
    EXPECT_EQ(profile.duration_nanos(), 12'345'000'000);
    EXPECT_EQ(parsed.text(profile.drop_frames()), "malloc");
    ASSERT_EQ(profile.sample_size(), 3);
    EXPECT_THAT(profile.sample(0).value(), ElementsAre(1, 100, 1, 100));
    EXPECT_THAT(profile.sample(1).value(), ElementsAre(9, 90, 1, 5));
    EXPECT_THAT(profile.sample(2).value(), ElementsAre(20, 2020, 20, 2020));
    EXPECT_EQ(parsed.calls(2), (Strings{"malloc :0", "foo foo.c:12"}));
}

TEST(PprofReport, PageFaultsAreSampleTypesOfTheirOwn) {
    Report report = sample_report();
    report.page_faults.emplace().stacks = {
        {.process = 0,
         .minor = 300,
         .major = 2,
         .touched = {},
         .still_bytes = std::nullopt,
         .frames = {frame(0x400999, "test", "touch", 5, "t.c", 9)},
         .end = StackEnd::outermost}};
    {
        const Parsed parsed(report);
        const Profile& profile = parsed.profile;
        ASSERT_EQ(profile.sample_type_size(), 6);
        EXPECT_EQ(parsed.type(profile.sample_type(3)), (Strings{"inuse_space", "bytes"}));
        EXPECT_EQ(parsed.type(profile.sample_type(4)), (Strings{"faults", "count"}));
        EXPECT_EQ(parsed.type(profile.sample_type(5)), (Strings{"major_faults", "count"}));
        EXPECT_EQ(parsed.text(profile.default_sample_type()), "inuse_space");
        ASSERT_EQ(profile.sample_size(), 4);
        EXPECT_THAT(profile.sample(2).value(), ElementsAre(20, 2020, 20, 2020, 0, 0));
        EXPECT_THAT(profile.sample(3).value(), ElementsAre(0, 0, 0, 0, 302, 2));
        EXPECT_EQ(parsed.calls(3), (Strings{"touch t.c:9"}));
    }
    report = Report();
    PageFaultReport& faults = report.page_faults.emplace();
    faults.resident.emplace();
    faults.stacks.resize(1);
    faults.stacks[0].minor = 3;
    faults.stacks[0].still_bytes = 8192;
    const Parsed parsed(report);
    ASSERT_EQ(parsed.profile.sample_type_size(), 7);
    EXPECT_EQ(parsed.type(parsed.profile.sample_type(6)), (Strings{"resident_space", "bytes"}));
    EXPECT_EQ(parsed.text(parsed.profile.default_sample_type()), "faults");
    EXPECT_THAT(parsed.profile.sample(0).value(), ElementsAre(0, 0, 0, 0, 3, 0, 8192));
}

TEST(PprofReport, InlinedCallsAreLinesOfOneLocation) {
    Report report;
    report.callstacks.resize(1);
    report.callstacks[0].frames = {
        frame(0x1000, "libc.so.6", "malloc", 0),
        returned_to(frame(0x2005, "app", "grow", {}, "b.hpp", 7, true)),
        returned_to(frame(0x2005, "app", "Box<int>::put(int)", 5, "b.cpp", 20)),
    };
    const Parsed parsed(report);
    ASSERT_EQ(parsed.profile.location_size(), 2);
    EXPECT_EQ(parsed.calls(0),
              (Strings{"malloc :0", "grow b.hpp:7", "Box<int>::put(int) b.cpp:20"}));
    EXPECT_EQ(parsed.location(0, 1).line_size(), 2);
    // The innermost pc is that of an instruction; a return address is behind its call.
    EXPECT_EQ(parsed.location(0, 0).address(), 0x1000U);
    EXPECT_EQ(parsed.location(0, 1).address(), 0x2004U);
}

TEST(PprofReport, AFrameThatManyStacksShareIsOneLocation) {
    const auto make = [](SourceFrame frame) {
        return std::make_shared<const std::vector<SourceFrame>>(1, std::move(frame));
    };
    const ResolvedFrame inner = make(frame(1, "libc.so.6", "malloc"));
    const ResolvedFrame left = make(frame(2, "app", "f", 1, "f.c", 1));
    const ResolvedFrame right = make(frame(3, "app", "f", 2, "f.c", 2));
    Report report;
    report.callstacks.resize(3);
    report.callstacks[0].frames = Backtrace({inner, left, left});
    report.callstacks[1].frames = Backtrace({inner, right});
    report.callstacks[2].frames = Backtrace({inner, right, left});
    const Parsed parsed(report);
    EXPECT_EQ(parsed.profile.location_size(), 3);
    EXPECT_EQ(parsed.profile.function_size(), 2);
    EXPECT_EQ(parsed.calls(0), (Strings{"malloc :0", "f f.c:1", "f f.c:1"}));
    EXPECT_EQ(parsed.calls(2), (Strings{"malloc :0", "f f.c:2", "f f.c:1"}));
}

TEST(PprofReport, MissingFramesAndNames) {
    Report report;
    report.callstacks.resize(4);
    report.callstacks[0].frames = {frame(1, "libfoo.so"), frame(2)};
    report.callstacks[0].end = StackEnd::limit;
    report.callstacks[1].frames = {frame(3, "app", "f")};
    report.callstacks[1].end = StackEnd::limit;
    report.callstacks[2].end = StackEnd::no_rule;
    const Parsed parsed(report);
    EXPECT_EQ(parsed.calls(0), (Strings{"[libfoo.so] :0", "[unknown] :0", "[backtrace limit] :0"}));
    EXPECT_EQ(parsed.calls(1), (Strings{"f :0", "[backtrace limit] :0"}));
    EXPECT_EQ(parsed.calls(2), (Strings{"[no unwind information] :0"}));
    EXPECT_EQ(parsed.calls(3), (Strings{"[no backtrace] :0"}));
    EXPECT_EQ(&parsed.location(0, 2), &parsed.location(1, 1));
    EXPECT_EQ(parsed.location(0, 2).address(), 0U);
}

TEST(PprofReport, Mappings) {
    Report report;
    report.modules = {module("/bin/app", {0x1000, 0x2000}, 0x400, "c0ffee"),
                      module("/lib/libold.so", {0x8000, 0x9000}), // gone, and
                      module("/lib/libnew.so", {0x8000, 0x9000}), // another one there
                      module("/lib/libunused.so", {0xa000, 0xb000})};
    report.callstacks.resize(1);
    report.callstacks[0].frames = {
        frame(0x8100, "libold.so", "f", 0), frame(0x8200, "libnew.so", "g", 0, "g.c", 3),
        // The return address of a call that does not return is behind the mapping.
        returned_to(frame(0x2000, "app", "main", 1, "main.c", 4)), frame(0x7000, "", "jit")};
    const Parsed parsed(report);
    ASSERT_EQ(parsed.profile.mapping_size(), 4);
    const auto& app = parsed.profile.mapping(0);
    EXPECT_EQ(app.id(), 1U);
    EXPECT_EQ(app.memory_start(), 0x1000U);
    EXPECT_EQ(app.memory_limit(), 0x2000U);
    EXPECT_EQ(app.file_offset(), 0x400U);
    EXPECT_EQ(parsed.text(app.filename()), "/bin/app");
    EXPECT_EQ(parsed.text(app.build_id()), "c0ffee");
    EXPECT_EQ(parsed.location(0, 0).mapping_id(), 2U);
    EXPECT_EQ(parsed.location(0, 1).mapping_id(), 3U);
    EXPECT_EQ(parsed.location(0, 2).mapping_id(), 1U);
    EXPECT_EQ(parsed.location(0, 2).address(), 0x1fffU);
    EXPECT_EQ(parsed.location(0, 3).mapping_id(), 0U);
    const auto flags = [&parsed](int index) {
        const auto& mapping = parsed.profile.mapping(index);
        return std::vector<bool>{mapping.has_functions(), mapping.has_filenames(),
                                 mapping.has_line_numbers(), mapping.has_inline_frames()};
    };
    EXPECT_THAT(flags(0), ElementsAre(true, true, true, true));
    EXPECT_THAT(flags(1), ElementsAre(true, false, false, false));
    EXPECT_THAT(flags(2), ElementsAre(true, true, true, true));
    EXPECT_THAT(flags(3), ElementsAre(false, false, false, false)); // nothing was looked up
}

TEST(PprofReport, OneFrameWithoutANameHasTheSymbolsLookedUpAgain) {
    Report report;
    report.modules = {module("/bin/app", {0x1000, 0x2000})};
    report.callstacks.resize(1);
    report.callstacks[0].frames = {frame(0x1100, "app", "f", 0), frame(0x1200, "app")};
    EXPECT_FALSE(Parsed(report).profile.mapping(0).has_functions());
}

TEST(PprofReport, VerdictIsALabel) {
    Report report = sample_report();
    report.callstacks[2].judgement = Judgement{Verdict::leaking, 1, {}, 1, 1};
    const Parsed parsed(report);
    EXPECT_EQ(parsed.profile.sample(0).label_size(), 0);
    ASSERT_EQ(parsed.profile.sample(2).label_size(), 1);
    EXPECT_EQ(parsed.text(parsed.profile.sample(2).label(0).key()), "verdict");
    EXPECT_EQ(parsed.text(parsed.profile.sample(2).label(0).str()), "leaking");
}

TEST(PprofReport, AllocatorsAndWrappersAreDropped) {
    Report report = sample_report();
    CallStackReport& stack = report.callstacks.back();
    stack.frames = {frame(1, "libc.so.6", "malloc"), frame(2, "app", "os::malloc(unsigned long)"),
                    frame(3, "app", "Pool<int*>::get(int)"), frame(4, "app", "main")};
    stack.where = 3;
    report.callstacks.erase(report.callstacks.begin(), report.callstacks.end() - 1);
    const Parsed parsed(report);
    EXPECT_EQ(parsed.text(parsed.profile.drop_frames()), "Pool<int\\*>::get|malloc|os::malloc");
    report.callstacks.back().where = 0;
    EXPECT_EQ(Parsed(report).profile.drop_frames(), 0);
}

TEST(PprofReport, WhateverTheNames) {
    Report report = sample_report();
    report.target.exe = "/tmp/\xff";
    report.modules = {module("/lib/\xc3.so", {0, 10})};
    report.callstacks[0].live.bytes = ~0ULL; // not negative
    report.callstacks[0].frames = {frame(1, "\xc3.so", "f\xff", 0, "\xfe.c", 3)};
    const Parsed parsed(report);
    EXPECT_EQ(parsed.calls(0), (Strings{"f\xef\xbf\xbd \xef\xbf\xbd.c:3"}));
    EXPECT_EQ(parsed.location(0, 0).mapping_id(), 1U);
    EXPECT_EQ(parsed.profile.sample(0).value(3), INT64_MAX);
}

TEST(PprofReport, Empty) {
    const Parsed parsed{Report{}};
    EXPECT_EQ(parsed.profile.sample_size(), 0);
    EXPECT_EQ(parsed.profile.sample_type_size(), 4);
}

} // namespace
} // namespace memleax
