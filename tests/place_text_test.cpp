// SPDX-License-Identifier: GPL-3.0-or-later
// A frame in a few words.
#include "memleax/report/place_text.hpp"

#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

TEST(PlaceText, FunctionAndLine) {
    const SourceFrame line = frame(1, "app", "parse(char const*)", 4, "/src/net/leak.c", 7);
    EXPECT_EQ(place_text(line, NameStyle::folded), "parse (leak.c:7)");
    EXPECT_EQ(place_text(line, NameStyle::whole), "parse (/src/net/leak.c:7)");
    EXPECT_EQ(place_text(frame(1, "app", "parse", 4, "leak.c"), NameStyle::folded),
              "parse (leak.c)");
    EXPECT_EQ(place_text(frame(1, "libpng16.so.16", "png_read"), NameStyle::folded),
              "png_read (libpng16.so.16)");
    EXPECT_EQ(place_text(frame(1, "", "jit"), NameStyle::folded), "jit");
}

TEST(PlaceText, NamesAreFoldedOrWhole) {
    const SourceFrame put =
        frame(1, "app", "std::vector<int, std::allocator<int> >::put(int)", 4, "v.h", 7);
    EXPECT_EQ(frame_name(put, NameStyle::folded), "std::vector<int>::put");
    EXPECT_EQ(frame_name(put, NameStyle::whole), "std::vector<int, std::allocator<int> >::put");
}

TEST(PlaceText, WithoutANameAsAddr2lineWantsIt) {
    SourceFrame nameless = frame(0x555555565d1d, "memcached");
    nameless.module_offset = 0x11d1d;
    EXPECT_EQ(place_text(nameless, NameStyle::folded), "memcached+0x11d1d");
    nameless.file = "/src/a.S";
    nameless.line = 3;
    EXPECT_EQ(place_text(nameless, NameStyle::folded), "memcached+0x11d1d (a.S:3)");
    EXPECT_EQ(place_text(frame(0x7f0000001d1d), NameStyle::folded), "0x7f0000001d1d");
}

TEST(PlaceText, NamesCannotForgeLines) {
    EXPECT_EQ(place_text(frame(1, "m\n", "f\x1b[2J"), NameStyle::folded), "f?[2J (m?)");
    EXPECT_EQ(source_text(frame(1, "m", "f", {}, "a/b\r", 1), NameStyle::folded), "b?:1");
}

} // namespace
} // namespace memleax
