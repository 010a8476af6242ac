// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/name_filter.hpp"

#include <string>

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(NameFilter, KnowsWhatWasAdded) {
    NameFilter filter;
    EXPECT_FALSE(filter.may_be_in("malloc"));
    for (const char* name : {"malloc", "_Znwm", "put", "x", "f\xc3\xbcr"}) {
        filter.add(name);
    }
    for (const char* name : {"malloc", "_Znwm", "put", "x", "f\xc3\xbcr", "malloc@@GLIBC_2.2.5",
                             "put@V1", "x@", "mallinfo"}) { // the last is one of the "others"
        EXPECT_TRUE(filter.may_be_in(name)) << name;
    }
}

TEST(NameFilter, SortsMostOthersOut) {
    NameFilter filter;
    for (const char* name : {"malloc", "free", "_Znwm", "_ZdlPv", "je_malloc", "put"}) {
        filter.add(name);
    }
    int let_in = 0;
    for (int i = 0; i < 10'000; ++i) {
        // Names that differ in their first bytes.
        let_in += filter.may_be_in((std::to_string(i) + "_function").c_str()) ? 1 : 0;
    }
    EXPECT_LT(let_in, 100);
    EXPECT_FALSE(filter.may_be_in("_ZN7memleax8ElfImage4openERKSs"));
    EXPECT_FALSE(filter.may_be_in("pu"));
    EXPECT_FALSE(filter.may_be_in(""));
}

} // namespace
} // namespace memleax
