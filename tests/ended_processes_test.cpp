// SPDX-License-Identifier: GPL-3.0-or-later
// What stays of processes that have ended, of which there may be thousands (--follow-forks).
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/proc/process_memory.hpp"
#include "memleax/session/process_account.hpp"
#include "sanitizer_support.hpp"

namespace memleax {
namespace {

/// One block that stays, and one that is freed, of a process that is being watched.
void begin_a_life(ProcessAccount& account) {
    account.on_watching(1);
    const std::vector frames{FrameAddress::exact(CodeAddr(0x1000))};
    const StackId stack = account.account().stacks.intern(frames, StackEnd::outermost);
    constexpr std::uint64_t kLeaked = 0x10'0000;
    constexpr std::uint64_t kFreed = 0x20'0000;
    const std::int64_t now = monotonic_now().value();
    for (const std::uint64_t address : {kLeaked, kFreed}) {
        account.tracker().on_event({.kind = EventKind::alloc,
                                    .tid = Tid(1),
                                    .address = RemoteAddr(address),
                                    .size = 32,
                                    .old_address = {},
                                    .stack = stack,
                                    .time = MonotonicNs(now)});
    }
    account.tracker().on_event({.kind = EventKind::free,
                                .tid = Tid(1),
                                .address = RemoteAddr(kFreed),
                                .size = 0,
                                .old_address = {},
                                .stack = stack,
                                .time = MonotonicNs(now)});
}

TEST(EndedProcesses, AreActiveUntilAllHasBeenToldOfThem) {
    ProcessAccounts accounts({.expire_ns = 1'000'000'000'000}, "");
    ProcessAccount& first = accounts.add(Tid(1), Tid(0));
    ProcessAccount& second = accounts.add(Tid(2), Tid(1));
    ProcessAccount& third = accounts.add(Tid(3), Tid(1));
    begin_a_life(first);
    begin_a_life(second);
    third.on_ended(SIGKILL); // it was never watched
    const auto retire = [&accounts] {
        accounts.retire_if([](ProcessAccount& process) { return process.settle(); });
    };
    retire();
    EXPECT_EQ(accounts.active(), (std::vector{&first, &second}));
    second.on_ended(0);
    EXPECT_EQ(accounts.active(), (std::vector{&first, &second}));
    retire();
    EXPECT_EQ(accounts.active(), std::vector{&first});
    EXPECT_EQ(accounts.all(), (std::vector{&first, &second}));
    EXPECT_EQ(accounts.find(2), &second);

    // Its block had lived for longer than that; and the user has not been told yet.
    accounts.set_expire_ns(0);
    EXPECT_EQ(accounts.active(), (std::vector{&first, &second}));
    retire();
    EXPECT_EQ(accounts.active(), (std::vector{&first, &second}));
    second.tracker().with([](Tracker& tracker) {
        EXPECT_EQ(tracker.take_notices().size(), 1U);
        EXPECT_EQ(tracker.blocks().expired(), 1U);
    });
    retire();
    EXPECT_EQ(accounts.active(), std::vector{&first});
}

std::size_t own_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t lines = 0;
    for (std::string line; std::getline(maps, line);) {
        ++lines;
    }
    return lines;
}

TEST(EndedProcesses, HaveNoMappingsOfTheirOwn) {
    ProcessAccounts accounts({.check = true}, "");
    constexpr int kProcesses = 1000;
    const std::size_t before = own_mappings();
    const std::uint64_t resident = try_read_resident_bytes(test::own_pid()).value_or(0);
    for (int i = 1; i <= kProcesses; ++i) {
        ProcessAccount& account = accounts.add(Tid(i), Tid(0));
        begin_a_life(account);
        account.on_ended(0);
        accounts.retire_if([](ProcessAccount& process) { return process.settle(); });
    }
    EXPECT_EQ(accounts.all().size(), kProcesses);
    EXPECT_THAT(accounts.active(), ::testing::IsEmpty());
    EXPECT_LT(own_mappings(), before + kProcesses / 10);
    if (!test::kIsSanitized) { // what is freed is kept for a while
        const std::uint64_t now = try_read_resident_bytes(test::own_pid()).value_or(0);
        constexpr std::uint64_t kMostOfOne = std::uint64_t{16} * 1024;
        EXPECT_LT(now - resident, kProcesses * kMostOfOne);
    }
}

} // namespace
} // namespace memleax
