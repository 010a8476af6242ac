// SPDX-License-Identifier: GPL-3.0-or-later
// Folded stacks, compared with golden text.
#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

CallStackReport stack_of(Backtrace frames, BlockCount live, StackEnd end = StackEnd::outermost) {
    CallStackReport stack;
    stack.frames = std::move(frames);
    stack.alloc = stack.live = live;
    stack.end = end;
    return stack;
}

/// The line of a stack with one frame of that name.
std::string line_of(const SourceFrame& only) {
    Report report;
    report.callstacks = {stack_of({only}, {1, 8})};
    return text_of(write_folded, report);
}

TEST(FoldedReport, RootFirstAndEqualStacksOnce) {
    Report report = sample_report();
    // Elsewhere in foo: another stack, the same names.
    report.callstacks[0].frames = {frame(0x7fd322bd8220, "libc.so.6", "malloc", 0),
                                   frame(0x400999, "test", "foo", 345, "foo.c", 99)};
    EXPECT_EQ(text_of(write_folded, report), "foo;malloc 2120\n"
                                             "[no unwind information] 5\n");
    EXPECT_EQ(text_of(write_folded_blocks, report), "foo;malloc 21\n"
                                                    "[no unwind information] 1\n");
}

TEST(FoldedReport, InlinedCallsUnknownFunctionsAndMissingFrames) {
    Report report;
    report.callstacks = {
        stack_of({frame(1, "libc.so.6", "malloc"), frame(2, "app", "grow", {}, "b.cpp", 7, true),
                  frame(2, "app", "Box<int>::put(int)"), frame(3, "libfoo.so"), frame(4, "[vdso]"),
                  frame(5)},
                 {2, 64}, StackEnd::limit),
        stack_of({frame(3, "libfoo.so")}, {1, 7}, StackEnd::bad_memory), stack_of({}, {1, 1})};
    EXPECT_EQ(text_of(write_folded, report),
              "[backtrace limit];[unknown];[vdso];[libfoo.so];Box<int>::put(int);grow;malloc 64\n"
              "[stack memory not readable];[libfoo.so] 7\n"
              "[no backtrace] 1\n");
}

TEST(FoldedReport, WholeAndCutStacksAreNotMixed) {
    Report report;
    report.callstacks = {stack_of(small_stack(), {1, 1}),
                         stack_of(small_stack(), {1, 2}, StackEnd::limit)};
    EXPECT_EQ(text_of(write_folded, report), "foo;malloc 1\n"
                                             "[backtrace limit];foo;malloc 2\n");
}

TEST(FoldedReport, PageFaultsAndWhatIsStillThere) {
    Report report;
    EXPECT_EQ(text_of(write_folded_faults, report), "");
    EXPECT_EQ(text_of(write_folded_resident, report), "");
    report.page_faults.emplace().stacks = {
        {.process = 0,
         .minor = 1,
         .major = 2,
         .touched = {},
         .still_bytes = 8192,
         .frames = small_stack(),
         .end = StackEnd::outermost},
        {.process = 0,
         .minor = 300,
         .major = 0,
         .touched = {},
         .still_bytes = 0,
         .frames = small_stack(),
         .end = StackEnd::limit},
    };
    EXPECT_EQ(text_of(write_folded_faults, report), "foo;malloc 3\n"
                                                    "[backtrace limit];foo;malloc 300\n");
    EXPECT_EQ(text_of(write_folded_resident, report), "foo;malloc 8192\n");
    EXPECT_EQ(text_of(write_folded, report), "");
}

TEST(FoldedReport, NothingThatIsLive) {
    Report report;
    EXPECT_EQ(text_of(write_folded, report), "");
    report.callstacks = {stack_of(small_stack(), {0, 0}), stack_of(small_stack(), {3, 0})};
    EXPECT_EQ(text_of(write_folded, report), "");
    EXPECT_EQ(text_of(write_folded_blocks, report), "foo;malloc 3\n"); // malloc(0)
}

TEST(FoldedReport, NamesBreakNoLine) {
    EXPECT_EQ(line_of(frame(1, "", "a;b\nc\r\td")), "a:b?c??d 8\n");
    EXPECT_EQ(line_of(frame(1, "lib;x y\n.so")), "[lib:x y?.so] 8\n");
    EXPECT_EQ(line_of(frame(1, "", "operator new(unsigned long)")),
              "operator new(unsigned long) 8\n");
    // flamegraph.pl would take "17 8" for a difference.
    EXPECT_EQ(line_of(frame(1, "", "f 17")), "f_17 8\n");
    EXPECT_EQ(line_of(frame(1, "", "f 1.5")), "f_1.5 8\n");
    EXPECT_EQ(line_of(frame(1, "", "17")), "17 8\n");
    EXPECT_EQ(line_of(frame(1, "", "f17")), "f17 8\n");
}

TEST(FoldedReport, NamesAreUtf8) {
    EXPECT_EQ(line_of(frame(1, "", "f\xc3\xa4\xf0\x9f\x98\x80")), "f\xc3\xa4\xf0\x9f\x98\x80 8\n");
    // A cut sequence, an overlong one, a surrogate, one above U+10FFFF, a stray byte.
    EXPECT_EQ(line_of(frame(1, "",
                            "\xc3"
                            "a\xc0\xaf"
                            "b\xed\xa0\x80"
                            "c\xf4\x90\x80\x80"
                            "d\xe2\x82")),
              "\xef\xbf\xbd"
              "a\xef\xbf\xbd\xef\xbf\xbd"
              "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
              "c\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
              "d\xef\xbf\xbd\xef\xbf\xbd 8\n");
}

} // namespace
} // namespace memleax
