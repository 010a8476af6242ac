// SPDX-License-Identifier: GPL-3.0-or-later
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {
namespace {

struct Pair {
    const char* mangled;
    const char* plain;
};

class Demangle : public testing::TestWithParam<Pair> {};

TEST_P(Demangle, Name) {
    EXPECT_EQ(demangle(GetParam().mangled), GetParam().plain);
}

INSTANTIATE_TEST_SUITE_P(
    Cpp, Demangle,
    testing::Values(Pair{"_ZN3FooC1Ev", "Foo::Foo()"}, Pair{"_ZN3FooD0Ev", "Foo::~Foo()"},
                    Pair{"_ZN3Foo3barEi", "Foo::bar(int)"},
                    Pair{"_Znwm", "operator new(unsigned long)"},
                    Pair{"_ZL6helperPKc", "helper(char const*)"},
                    Pair{"_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"},
                    Pair{"_Z4makeIiEPT_v", "make<int>()"}, // without the return type
                    Pair{"_Z3fooi.cold", "foo(int) [clone .cold]"}));

INSTANTIATE_TEST_SUITE_P(
    Rust, Demangle,
    testing::Values(
        Pair{"_ZN3std2io5stdio6_print17h8f1a9d2c3b4e5f60E", "std::io::stdio::_print"},
        Pair{"_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
             "core::ptr::drop_in_place<alloc::string::String>"},
        Pair{"_RNvC7mycrate3foo", "mycrate::foo"},
        Pair{"_RNvMC7mycrateNtB2_6Holder3new", "<mycrate::Holder>::new"}));

INSTANTIATE_TEST_SUITE_P(D, Demangle,
                         testing::Values(Pair{"_D3foo3barFiZv", "foo.bar(int)"},
                                         Pair{"_Dmain", "D main"}));

INSTANTIATE_TEST_SUITE_P(Others, Demangle,
                         testing::Values(Pair{"", ""}, Pair{"malloc", "malloc"}, Pair{"i", "i"},
                                         Pair{"_Z", "_Z"}, Pair{"_ZN", "_ZN"}, Pair{"_R", "_R"},
                                         Pair{"_DYNAMIC", "_DYNAMIC"}, Pair{"_D9", "_D9"},
                                         Pair{"_ZN3FooC1Ev_not", "_ZN3FooC1Ev_not"}));

TEST(DemangleLimit, AShortNameCannotGrowWithoutEnd) {
    // Each "S_IS?_S?_E" doubles: f(T), T = pair<T', T'>, ...
    std::string name = "_Z1fSt4pairIiiE";
    const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (const char digit : digits.substr(0, 5)) {
        name += fmt::format("S_IS{0}_S{0}_E", digit);
    }
    EXPECT_THAT(demangle(name), ::testing::StartsWith("f(std::pair<int, int>, std::pair<"));
    for (const char digit : digits.substr(5)) {
        name += fmt::format("S_IS{0}_S{0}_E", digit);
    }
    EXPECT_EQ(demangle(name), name); // it would take a year
    // D's back references: H is a map, of the parameter before to itself.
    const auto map_of_maps = [](int levels) {
        std::string d_name = "_D1fFHiiHQeQg";
        for (int i = 1; i < levels; ++i) {
            d_name += "HQgQi";
        }
        return d_name + "Zv";
    };
    EXPECT_EQ(demangle(map_of_maps(1)), "f(int[int], int[int][int[int]])");
    EXPECT_EQ(demangle(map_of_maps(40)), map_of_maps(40));
    EXPECT_EQ(demangle("_Z" + std::string(1000000, 'P')), "_Z" + std::string(1000000, 'P'));
}

} // namespace
} // namespace memleax
