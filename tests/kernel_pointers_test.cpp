// SPDX-License-Identifier: GPL-3.0-or-later
// What the kernel keeps for a program, by the texts of /proc.
#include "memleax/proc/kernel_pointers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KernelPointersTest, EpollData) {
    EXPECT_THAT(parse_epoll_data("pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n"
                                 "tfd:        5 events:       19 data:     55d0c0ffee10  pos:0 "
                                 "ino:2061 sdev:e\n"
                                 "tfd:        6 events: 80000001 data: ffffffffffffffff  pos:0\n"),
                ElementsAre(0x55d0c0ffee10, 0xffffffffffffffff));
    EXPECT_THAT(parse_epoll_data(""), IsEmpty());
    EXPECT_THAT(parse_epoll_data("tfd: 5 events: 19\ntfd: 1 data: zz"), IsEmpty());
}

TEST(KernelPointersTest, TimerValues) {
    EXPECT_THAT(parse_timer_values("ID: 1\nsignal: 60/00007fff86e452a8\nnotify: signal/pid.2634\n"
                                   "ClockID: 0\nID: 0\nsignal: 60/0x7fff86e452b0\n"),
                ElementsAre(0x7fff86e452a8, 0x7fff86e452b0));
    EXPECT_THAT(parse_timer_values("signal: 60"), IsEmpty());
}

} // namespace
} // namespace memleax
