// SPDX-License-Identifier: GPL-3.0-or-later
#include "../src/symbols/function_part.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

struct Case {
    const char* symbol;
    const char* function;
    bool is_elsewhere = false;
};

TEST(FunctionPart, WhatCompilersAppend) {
    for (const Case& each :
         {Case{"f", "f"}, Case{"f.cold", "f", true}, Case{"f.cold.12", "f", true},
          Case{"_ZN1a1fEv.cold", "_ZN1a1fEv", true}, Case{"f.lto_priv.0", "f"},
          Case{"f.lto_priv.0.cold", "f", true}, Case{"f.llvm.7261849", "f"},
          Case{"f.isra.0", "f.isra.0"}, Case{"f.isra.0.cold", "f.isra.0", true},
          Case{"f.constprop.1", "f.constprop.1"}, Case{"f.lto_priv", "f.lto_priv"},
          Case{".cold", ".cold"}, Case{"12", "12"}, Case{".12", ".12"}, Case{"", ""},
          Case{"f.12", "f.12"}, Case{"cold", "cold"}}) {
        const FunctionPart part = part_of(each.symbol);
        EXPECT_EQ(part.function, each.function) << each.symbol;
        EXPECT_EQ(part.is_elsewhere, each.is_elsewhere) << each.symbol;
    }
}

} // namespace
} // namespace memleax
