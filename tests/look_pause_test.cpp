// SPDX-License-Identifier: GPL-3.0-or-later
#include "../src/engine/look_pause.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

MonotonicNs at(std::int64_t ms) {
    return MonotonicNs(1'000'000'000 + ms * 1'000'000);
}

/// From the end of a look at 0 to the next one, in ms.
std::int64_t length_of(const LookPause& pause) {
    std::int64_t ms = 0;
    while (!pause.is_over(at(ms))) {
        ++ms;
    }
    return ms;
}

TEST(LookPause, IsShortWhereNobodyHits) {
    LookPause pause;
    EXPECT_EQ(length_of(pause), 0);
    for (int i = 0; i < 3; ++i) {
        pause.on_nothing(at(0));
        EXPECT_EQ(length_of(pause), 2);
    }
}

TEST(LookPause, DoublesBehindLooksInVain) {
    LookPause pause;
    for (const std::int64_t ms : {4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}) {
        pause.on_look(at(0), false);
        EXPECT_EQ(length_of(pause), ms);
    }
    pause.on_look(at(0), true);
    EXPECT_EQ(length_of(pause), 2);
    pause.on_look(at(0), false);
    EXPECT_EQ(length_of(pause), 4);
}

} // namespace
} // namespace memleax
