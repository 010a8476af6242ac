// SPDX-License-Identifier: GPL-3.0-or-later
// What is said of the looks at a process, and what is not said again.
#include "memleax/heap/told_of_looks.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(ToldOfLooksTest, WhatIsAsAtTheLastLookIsNotToldAgain) {
    ToldOfLooks told;
    const auto look = [&told](std::initializer_list<const char*> lines) {
        testing::internal::CaptureStderr();
        told.begin_look();
        for (const char* line : lines) {
            told.tell(line);
        }
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_EQ(look({"a", "b", "a"}), "memleax: a\nmemleax: b\n");
    EXPECT_EQ(look({"b", "a"}), "");
    EXPECT_EQ(look({"a", "c"}), "memleax: c\n");
    EXPECT_EQ(look({}), "");
    EXPECT_EQ(look({"a"}), "memleax: a\n") << "it was otherwise meanwhile";
}

} // namespace
} // namespace memleax
