// SPDX-License-Identifier: GPL-3.0-or-later
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
    // Each "SI_S?_E" doubles: f(T), T = pair<T', T'>, ...
    std::string name = "_Z1fSt4pairIiiE";
    for (const char* back :
         {"S_IS0_S0_E", "S_IS1_S1_E", "S_IS2_S2_E", "S_IS3_S3_E", "S_IS4_S4_E", "S_IS5_S5_E",
          "S_IS6_S6_E", "S_IS7_S7_E", "S_IS8_S8_E", "S_IS9_S9_E", "S_ISA_SA_E", "S_ISB_SB_E",
          "S_ISC_SC_E", "S_ISD_SD_E", "S_ISE_SE_E"}) {
        name += back;
    }
    EXPECT_LE(demangle(name).size(), 64U * 1024);
    EXPECT_EQ(demangle("_Z" + std::string(1000000, 'P')), "_Z" + std::string(1000000, 'P'));
}

} // namespace
} // namespace memleax
