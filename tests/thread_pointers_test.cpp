// SPDX-License-Identifier: GPL-3.0-or-later
#include "../src/engine/inline/thread_pointers.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

using arch::ThreadPointerFrom;

constexpr Tid kFirst(1);
constexpr Tid kSecond(2);
/// What it is where memory has them.
constexpr ThreadPointerFrom kBest =
    arch::kThreadPointerIsInMemory ? ThreadPointerFrom::memory : ThreadPointerFrom::cpu;

TEST(ThreadPointers, AreNotReadFromMemoryBeforeOneWasSeenThere) {
    EXPECT_EQ(ThreadPointers(false).from(), ThreadPointerFrom::nowhere);
    EXPECT_EQ(ThreadPointers(true).from(), ThreadPointerFrom::cpu);
}

TEST(ThreadPointers, AreReadFromMemoryWhileAllAreThere) {
    ThreadPointers pointers(true);
    pointers.see(kFirst, true);
    EXPECT_EQ(pointers.from(), kBest);
    pointers.see(kSecond, false);
    EXPECT_EQ(pointers.from(), ThreadPointerFrom::cpu);
    pointers.on_thread_gone(kFirst);
    EXPECT_EQ(pointers.from(), ThreadPointerFrom::cpu);
    pointers.on_thread_gone(kSecond);
    EXPECT_EQ(pointers.from(), kBest);
}

TEST(ThreadPointers, OneMayGetItsOwnLater) {
    ThreadPointers pointers(true);
    pointers.see(kFirst, false); // at its execve
    pointers.see(kFirst, true);
    EXPECT_EQ(pointers.from(), kBest);
}

TEST(ThreadPointers, ANewProgramsAreSeenAnew) {
    ThreadPointers pointers(true);
    pointers.see(kFirst, true);
    pointers.forget();
    EXPECT_EQ(pointers.from(), ThreadPointerFrom::cpu);
}

} // namespace
} // namespace memleax
