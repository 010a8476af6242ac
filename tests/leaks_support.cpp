// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks_support.hpp"

#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memleax::testing {

namespace {

bool is_library(const std::string& module) {
    static constexpr std::array kLibraries{"libc.so",      "libc-",       "libstdc++.so",
                                           "libgcc_s.so",  "ld-linux",    "ld-musl",
                                           "libjemalloc.", "libtcmalloc", "libmimalloc."};
    const std::string name = module.substr(module.rfind('/') + 1);
    for (const char* library : kLibraries) {
        if (name.starts_with(library)) {
            return true;
        }
    }
    return false;
}

bool is_allocator(const std::string& function) {
    static constexpr std::array kAllocators{"malloc", "calloc",   "realloc",        "reallocarray",
                                            "free",   "memalign", "posix_memalign", "aligned_alloc",
                                            "valloc", "pvalloc"};
    // In a static program an alias may be the one that is found.
    static constexpr std::array kPrefixes{"", "__libc_", "__", "tc_", "je_", "odd_"};
    for (const char* prefix : kPrefixes) {
        for (const char* name : kAllocators) {
            if (function == std::string(prefix) + name) {
                return true;
            }
        }
    }
    static constexpr std::array kMapping{"mmap",  "mmap64", "mremap",   "brk",   "sbrk",
                                         "shmat", "__mmap", "__mremap", "__brk", "__sbrk"};
    if (std::find(kMapping.begin(), kMapping.end(), function) != kMapping.end()) {
        return true;
    }
    return function.starts_with("operator new") || function.starts_with("tc_new") ||
           function.starts_with("fixture_pool_");
}

bool is_standard_template(const std::string& function) {
    return function.find("std::") != std::string::npos ||
           function.find("__gnu_cxx::") != std::string::npos;
}

std::string without_parameters(const std::string& function) {
    return function.substr(0, function.find('('));
}

} // namespace

std::string allocating_function(const nlohmann::json& call_stack) {
    for (const auto& frame : call_stack.at("frames")) {
        const std::string function = without_parameters(frame.value("function", "(no name)("));
        const std::string module = frame.value("module", "");
        // Without .symtab (arm64's) most of its functions have no names.
        if ((function.starts_with("_dl_") || !frame.contains("function")) &&
            module.find("ld-linux") != std::string::npos) {
            return kDynamicLinker;
        }
        if (!is_library(module) && !is_allocator(function) && !is_standard_template(function)) {
            return function;
        }
    }
    return "(nowhere) " + call_stack.at("frames").dump();
}

void record_compared(const std::string& what) {
    ::testing::Test::RecordProperty(what, "compared");
}

Leaks live_leaks(const nlohmann::json& report) {
    Leaks result;
    for (const auto& stack : report.at("callstacks")) {
        const Leak live{stack.at("live_blocks"), stack.at("live_bytes")};
        if (live != Leak{}) {
            Leak& sum = result[allocating_function(stack)];
            sum.blocks += live.blocks;
            sum.bytes += live.bytes;
        }
    }
    return result;
}

void expect_truth(const nlohmann::json& report, const FixtureAnswer& answer, WatchedFrom from) {
    record_compared("counts");
    record_compared("frames"); // each function is found in a stack
    EXPECT_THAT(answer.failures, ::testing::IsEmpty());
    Leaks live = live_leaks(report);
    Leak total;
    for (const auto& [function, leak] : live) {
        total.blocks += leak.blocks;
        total.bytes += leak.bytes;
    }
    const auto& totals = report.at("totals");
    EXPECT_EQ((Leak{totals.at("live_blocks"), totals.at("live_bytes")}), total);
    if (from == WatchedFrom::start) {
        live.erase(kDynamicLinker);
    }
    EXPECT_EQ(live, answer.truth);

    const auto& events = report.at("session").at("events");
    for (const char* wrong : {"double_free", "invalid_free", "mismatched_free"}) {
        EXPECT_EQ(events.at(wrong), 0) << wrong;
    }
    for (const char* call : {"alloc", "realloc", "free"}) {
        const auto made = answer.counts.find(call);
        if (made != answer.counts.end() && from == WatchedFrom::attach) { // nobody else makes any
            EXPECT_EQ(events.at(call), made->second) << call;
        }
    }
    const auto failed = answer.counts.find("failed_alloc");
    EXPECT_EQ(events.at("failed_alloc"), failed == answer.counts.end() ? 0 : failed->second);
    const auto unknown = answer.counts.find("unknown_free");
    if (unknown != answer.counts.end()) {
        EXPECT_EQ(events.at("unknown_free"), unknown->second);
    }
}

} // namespace memleax::testing
