// SPDX-License-Identifier: GPL-3.0-or-later
/// A tracker that is fed by hand, for the tests of its several subjects.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "memleax/track/tracker.hpp"

namespace memleax {

inline constexpr std::size_t kAll = 1'000'000;
using Kind = Notice::Kind;

/// A tracker with an expire threshold of 10 ns and two call stacks.
struct TrackerTest : testing::Test {
    explicit TrackerTest(Tracker::Options options = {.expire_ns = 10}) : tracker(options) {}

    StackId stack(std::uint64_t pc) {
        return tracker.intern(std::vector{FrameAddress::exact(CodeAddr(pc))}, StackEnd::outermost);
    }
    void send(EventKind kind, int tid, std::uint64_t address, std::uint64_t old, std::uint64_t size,
              StackId at, std::int64_t time) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(tid),
                          .address = RemoteAddr(address),
                          .size = size,
                          .old_address = RemoteAddr(old),
                          .stack = at,
                          .time = MonotonicNs(time)});
    }
    void alloc(std::uint64_t address, std::uint64_t size, StackId at, std::int64_t time,
               int tid = 1) {
        send(EventKind::alloc, tid, address, 0, size, at, time);
    }
    void free(std::uint64_t address, std::int64_t time, StackId at = kNoStack) {
        send(EventKind::free, 1, address, 0, 0, at, time);
    }
    void realloc_begin(int tid, std::uint64_t old, std::int64_t time) {
        send(EventKind::realloc_begin, tid, 0, old, 0, kNoStack, time);
    }
    void realloc_end(int tid, std::uint64_t old, std::uint64_t address, std::uint64_t size,
                     StackId at, std::int64_t time) {
        send(EventKind::realloc_end, tid, address, old, size, at, time);
    }
    void expire(std::int64_t now) { EXPECT_FALSE(tracker.expire(MonotonicNs(now), kAll)); }
    std::vector<Kind> notices() {
        std::vector<Kind> kinds;
        for (const Notice& notice : tracker.take_notices()) {
            kinds.push_back(notice.kind);
        }
        return kinds;
    }

    Tracker tracker;
    StackId a = stack(0x1000);
    StackId b = stack(0x2000);
};

} // namespace memleax
