// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks_support.hpp"

#include <algorithm>
#include <array>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memleax/events/allocation_event.hpp"

namespace memleax::testing {

namespace {

bool is_library(const std::string& module) {
    // The vdso returns from arm64's signal handlers, and names nothing that does.
    static constexpr std::array kLibraries{"libc.so",      "libc-",   "libstdc++.so", "libgcc_s.so",
                                           "ld-linux",     "ld-musl", "libjemalloc.", "libtcmalloc",
                                           "libmimalloc.", "[vdso]"};
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

/// What a program's own module has around main and the threads' functions: the start files, and the
/// C library of a static one.
bool is_start(const std::string& function) {
    static constexpr std::array kStarts{"_start",
                                        "_start_c",
                                        "__libc_start_main",
                                        "__libc_start_main_impl",
                                        "__libc_start_call_main",
                                        "libc_start_main_stage2",
                                        "start_thread",
                                        "thread_start",
                                        "start",
                                        "clone",
                                        "clone3",
                                        "__clone",
                                        "__clone3",
                                        "__morestack"};
    return std::find(kStarts.begin(), kStarts.end(), function) != kStarts.end();
}

/// "by_new" of "(anonymous namespace)::by_new(int) [clone .isra.0]", and of "by_new.part.0".
std::string without_parameters(std::string function) {
    const std::string unnamed = "(anonymous namespace)::";
    for (auto at = function.find(unnamed); at != std::string::npos; at = function.find(unnamed)) {
        function.erase(at, unnamed.size());
    }
    for (const char* part : {"(", " [clone", ".part.", ".isra.", ".constprop."}) {
        function.resize(std::min(function.size(), function.find(part)));
    }
    return function;
}

/// Is this what a fixture's line "stack" says?
bool is_stack(const std::string& expression, const std::string& functions) {
    return std::regex_match(functions, std::regex(expression, std::regex::extended));
}

/// Is it that, but for the outermost functions?
bool is_inner_part(const std::string& expression, const std::string& functions) {
    const std::string plain = expression.substr(0, expression.find_first_of("([.*+?|")) + " ";
    for (auto end = plain.find(' '); end != std::string::npos; end = plain.find(' ', end + 1)) {
        if (is_stack(expression, plain.substr(0, end + 1) + functions)) {
            return true;
        }
    }
    return false;
}

bool is_own(const std::string& function, const std::string& module) {
    return !is_library(module) && !is_allocator(function) && !is_standard_template(function);
}

} // namespace

std::string allocating_function(const nlohmann::json& call_stack) {
    for (const auto& frame : call_stack.at("frames")) {
        const std::string function = without_parameters(frame.value("function", "?"));
        const std::string module = frame.value("module", "");
        // Without .symtab (arm64's) most of its functions have no names.
        if ((function.starts_with("_dl_") || !frame.contains("function")) &&
            module.find("ld-linux") != std::string::npos) {
            return kDynamicLinker;
        }
        if (is_own(function, module)) {
            return function;
        }
    }
    return "(nowhere) " + call_stack.at("frames").dump();
}

std::string own_functions(const nlohmann::json& call_stack) {
    std::string result;
    for (const auto& frame : call_stack.at("frames")) {
        const std::string function = without_parameters(frame.value("function", "?"));
        if (is_own(function, frame.value("module", "")) && !is_start(function)) {
            result.insert(0, function + (result.empty() ? "" : " "));
        }
    }
    return result;
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
    record_compared("frames");
    EXPECT_THAT(answer.failures, ::testing::IsEmpty());
    const Leaks live = live_leaks(report);
    Leaks truth = answer.truth;
    if (const auto linker = live.find(kDynamicLinker);
        from == WatchedFrom::start && linker != live.end()) {
        truth.insert(*linker); // the program does not know
    }
    EXPECT_EQ(live, truth);
    Leak total;
    for (const auto& [function, leak] : truth) {
        total.blocks += leak.blocks;
        total.bytes += leak.bytes;
    }
    const auto& totals = report.at("totals");
    EXPECT_EQ((Leak{totals.at("live_blocks"), totals.at("live_bytes")}), total);

    for (const auto& stack : report.at("callstacks")) {
        if (stack.at("live_blocks") == 0) {
            continue;
        }
        const std::string functions = own_functions(stack);
        if (from == WatchedFrom::start && allocating_function(stack) == kDynamicLinker) {
            EXPECT_TRUE(functions.empty() || functions.ends_with("fixture_start_thread"))
                << functions;
            continue;
        }
        const bool is_cut = stack.value("stack_end", "") == describe(StackEnd::limit);
        EXPECT_TRUE(std::any_of(answer.stacks.begin(), answer.stacks.end(),
                                [&](const std::string& told) {
                                    return is_stack(told, functions) ||
                                           (is_cut && is_inner_part(told, functions));
                                }))
            << functions << " (" << stack.value("stack_end", "whole") << ") is none of\n"
            << ::testing::PrintToString(answer.stacks) << "\n"
            << stack.at("frames").dump(1);
    }
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

Leaks classes_of(const nlohmann::json& report) {
    Leaks classes;
    const auto& found = report.at("leak_check");
    EXPECT_TRUE(found.at("complete")) << found;
    for (const char* name : {"definite", "indirect", "possible", "reachable"}) {
        classes[name] = {found.at(name).at("blocks"), found.at(name).at("bytes")};
    }
    return classes;
}

Leaks difference(Leaks after, const Leaks& before) {
    for (const auto& [name, leak] : before) {
        after[name].blocks -= leak.blocks;
        after[name].bytes -= leak.bytes;
    }
    return after;
}

} // namespace memleax::testing
