// SPDX-License-Identifier: GPL-3.0-or-later
// Which functions allocate for others, and by whom a call stack is named.
#include "memleax/report/wrappers.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "memleax/report/own_frame.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

const SourceFrame kMalloc = frame(1, "libc.so.6", "malloc");
const SourceFrame kMain = frame(9, "app", "main", 4, "main.c", 90);

/// malloc, this, the caller, main.
Backtrace by_way_of(const SourceFrame& wrapper, unsigned caller) {
    return {kMalloc, wrapper,
            frame(1000 + caller, "app", fmt::format("caller_{}", caller), 4, "app.c", caller),
            kMain};
}

/// As many call stacks as callers.
std::vector<Backtrace> stacks_by_way_of(const SourceFrame& wrapper, unsigned callers) {
    std::vector<Backtrace> stacks;
    for (unsigned i = 0; i < callers; ++i) {
        stacks.push_back(by_way_of(wrapper, i));
    }
    return stacks;
}

TEST(Wrappers, AreKnownByTheirNames) {
    const Wrappers wrappers;
    for (const char* name :
         {"xmalloc", "zmalloc", "my_malloc", "palloc", "os::malloc(unsigned long, MEMFLAGS)",
          "_PyObject_Malloc", "g_malloc0", "xstrdup", "CRYPTO_zalloc", "ngx_palloc",
          "ngx_create_pool", "sqlite3Malloc", "MemoryContextAllocZero", "_rjem_mallocx",
          "_rjem_rallocx"}) {
        EXPECT_TRUE(wrappers.contains(frame(2, "app", name))) << name;
        EXPECT_EQ(own_frame(by_way_of(frame(2, "app", name), 0), wrappers), 2U) << name;
    }
    // Something is allocated, not just memory: it may be the one that leaks.
    for (const char* name : {"session_alloc", "sdsnewlen", "alloc_connection", "parse_line", "main",
                             "malloc_stats_print", "new_buffer"}) {
        EXPECT_FALSE(wrappers.contains(frame(2, "app", name))) << name;
        EXPECT_EQ(own_frame(by_way_of(frame(2, "app", name), 0), wrappers), 1U) << name;
    }
}

void expect_passed_over(const char* name, bool expected) {
    const Backtrace stack = by_way_of(frame(2, "app", name), 0);
    EXPECT_EQ(own_frame(stack), expected ? 2U : 1U) << name;
}

TEST(Wrappers, HandOutAnObjectsMemoryInPython) {
    for (const char* name :
         {"_PyObject_GC_Alloc", "gc_alloc", "_PyObject_New", "_PyObject_NewVar", "_PyObject_GC_New",
          "_PyObject_GC_NewVar", "PyType_GenericAlloc", "_PyType_AllocNoTrack",
          "PyBytes_FromStringAndSize", "_PyBytes_FromSize", "PyUnicode_New"}) {
        expect_passed_over(name, true);
    }
    // What users of Python know as the thing that is made, or that grows.
    for (const char* name : {"PyList_New", "PyList_Append", "PyDict_New", "PyDict_SetItem",
                             "PyTuple_New", "PyUnicode_FromString", "_PyEval_EvalFrameDefault"}) {
        expect_passed_over(name, false);
    }
}

/// As ngx_create_pool: who asked for it keeps it.
TEST(Wrappers, CreatePostgresMemoryContexts) {
    for (const char* name :
         {"AllocSetContextCreateInternal", "GenerationContextCreate", "SlabContextCreate"}) {
        expect_passed_over(name, true);
    }
    expect_passed_over("CompleteCachedPlan", false);
    expect_passed_over("CreateExprContext", false);
}

TEST(Wrappers, MatchTheUsersPatterns) {
    const Wrappers wrappers({"pool_*", "shop::Pool::get", "libpool.so.*"});
    EXPECT_TRUE(wrappers.contains(frame(2, "app", "pool_get")));
    EXPECT_TRUE(wrappers.contains(frame(2, "app", "shop::Pool::get(unsigned long)")));
    EXPECT_TRUE(wrappers.contains(frame(2, "app", "void shop::Pool::get(unsigned long) const")));
    EXPECT_TRUE(wrappers.contains(frame(2, "libpool.so.3")));
    EXPECT_FALSE(wrappers.contains(frame(2, "app", "shop::Pool::put(void*)")));
}

TEST(Wrappers, OneThatNobodyCallsIsThePlaceAfterAll) {
    const Backtrace nothing_else{kMalloc, frame(2, "app", "xmalloc"),
                                 frame(3, "libc.so.6", "start_thread")};
    EXPECT_EQ(own_frame(nothing_else), 1U);
    const Backtrace two{kMalloc, frame(2, "app", "xmalloc"), frame(3, "app", "xstrdup")};
    EXPECT_EQ(own_frame(two), 1U);
}

TEST(Wrappers, AreLearnedFromWhatMostCallStacksShare) {
    const SourceFrame get_memory = frame(2, "app", "get_memory", 4, "mem.c", 7);
    Wrappers wrappers;
    wrappers.learn(stacks_by_way_of(get_memory, 20));
    EXPECT_TRUE(wrappers.contains(get_memory));
    EXPECT_EQ(own_frame(by_way_of(get_memory, 3), wrappers), 2U);
    EXPECT_FALSE(wrappers.contains(kMain));
    // Without a name by its place.
    const SourceFrame nameless = frame(0x401234, "app");
    wrappers.learn(stacks_by_way_of(nameless, 20));
    EXPECT_TRUE(wrappers.contains(nameless));
    EXPECT_FALSE(wrappers.contains(get_memory)); // as before is forgotten
}

TEST(Wrappers, ThatCallEachOtherAreLearnedToo) {
    const SourceFrame inner = frame(2, "app", "get_memory", 4, "mem.c", 7);
    const SourceFrame outer = frame(3, "app", "new_text", 4, "text.c", 8);
    std::vector<Backtrace> stacks;
    for (unsigned i = 0; i < 60; ++i) {
        const SourceFrame caller = frame(100 + i, "app", fmt::format("caller_{}", i));
        stacks.push_back(i < 20   ? Backtrace{kMalloc, outer, caller, kMain}
                         : i < 38 ? Backtrace{kMalloc, inner, outer, caller, kMain}
                                  : Backtrace{kMalloc, inner, caller, kMain});
    }
    Wrappers wrappers;
    wrappers.learn(stacks);
    EXPECT_TRUE(wrappers.contains(inner));
    EXPECT_TRUE(wrappers.contains(outer));
    EXPECT_EQ(own_frame(stacks[30], wrappers), 3U);
}

/// What leaks may be reached on many ways, but by one function.
TEST(Wrappers, AFunctionThatServesOneMostlyIsNone) {
    const SourceFrame inner = frame(2, "app", "grow", 4, "list.c", 7);
    std::vector<Backtrace> stacks;
    for (unsigned i = 0; i < 40; ++i) {
        const SourceFrame caller = frame(100 + i, "app", fmt::format("caller_{}", i));
        stacks.push_back(i < 30 ? Backtrace{kMalloc, inner, frame(3, "app", "append"), caller}
                                : Backtrace{kMalloc, inner, caller, kMain});
    }
    Wrappers wrappers;
    wrappers.learn(stacks);
    EXPECT_FALSE(wrappers.contains(inner));
}

TEST(Wrappers, NothingIsLearnedFromLittle) {
    const SourceFrame get_memory = frame(2, "app", "get_memory", 4, "mem.c", 7);
    Wrappers wrappers;
    wrappers.learn(stacks_by_way_of(get_memory, 10));
    EXPECT_FALSE(wrappers.contains(get_memory));
    // One function that leaks on several ways: few callers.
    std::vector<Backtrace> few;
    for (unsigned i = 0; i < 40; ++i) {
        few.push_back(by_way_of(get_memory, i % 4));
    }
    wrappers.learn(few);
    EXPECT_FALSE(wrappers.contains(get_memory));
    // A function that is big: it allocates in many places of its own.
    std::vector<Backtrace> large;
    for (unsigned i = 0; i < 40; ++i) {
        large.push_back(by_way_of(frame(2, "app", "load", 4, "load.c", i), i));
    }
    wrappers.learn(large);
    EXPECT_FALSE(wrappers.contains(frame(2, "app", "load", 4, "load.c", 1)));
    wrappers.learn({});
    EXPECT_FALSE(wrappers.contains(get_memory));
}

} // namespace
} // namespace memleax
