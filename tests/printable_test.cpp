// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/printable.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(Printable, TextStays) {
    for (const char* text :
         {"", "plain", "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80"}) {
        EXPECT_EQ(printable(text), text);
    }
}

TEST(Printable, ControlCharactersGo) {
    EXPECT_EQ(printable("\x1b[2J\n\t\x7f"), "?[2J???");
    EXPECT_EQ(printable(std::string(1, '\0')), "?");
    EXPECT_EQ(printable("\xc2\x9b"
                        "2J\xc2\x80\xc2\x9f\xc2\xa0"),
              "?2J??\xc2\xa0"); // U+009B is CSI; U+00A0 is a blank
}

TEST(Printable, DirectionsAndSeparatorsGo) {
    EXPECT_EQ(printable("\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9"), "????");
    EXPECT_EQ(printable("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8\xe2\x80\xa9"), "?????");
    EXPECT_EQ(printable("\xe2\x80\xa6\xe2\x80\x93"), "\xe2\x80\xa6\xe2\x80\x93"); // ... and a dash
}

TEST(Printable, WhatIsNoUtf8IsReplaced) {
    EXPECT_EQ(printable("\x9b"
                        "2J"),
              "\xef\xbf\xbd"
              "2J");
    EXPECT_EQ(printable("\xc0\x9b\xe2\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

} // namespace
} // namespace memleax
