// SPDX-License-Identifier: GPL-3.0-or-later
// Demangled names as people read them, and where a frame is.
#include "memleax/report/folded_name.hpp"

#include <string>

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(FoldedName, ShortNamesStayAsTheyAre) {
    for (const char* name :
         {"", "main", "shop::Store::open(unsigned int)", "(anonymous namespace)::run(int)",
          "f(int)::{lambda(char*)#1}::operator()(char*) const", "a::operator->() const",
          "a::operator<(a const&)", "std::vector<int>::push_back(int&&)",
          "alloc::vec::Vec<T>::push", "<alloc::string::String as core::clone::Clone>::clone",
          "@plt", "JS:^createUnsafeBuffer node:internal/buffer:1056:28"}) {
        EXPECT_EQ(folded_name(name), name);
    }
}

TEST(FoldedName, KnowsTheStringsOfTheStandardLibrary) {
    EXPECT_EQ(folded_name("f(std::__cxx11::basic_string<char, std::char_traits<char>, "
                          "std::allocator<char> > const&)"),
              "f(std::string const&)");
    EXPECT_EQ(folded_name("f(std::__1::basic_string<char, std::__1::char_traits<char>, "
                          "std::__1::allocator<char>>)"),
              "f(std::string)");
    EXPECT_EQ(folded_name("std::__cxx11::basic_string<char, std::char_traits<char>, "
                          "std::allocator<char> >::_M_create(unsigned long&, unsigned long)"),
              "std::string::_M_create(unsigned long&, unsigned long)");
    EXPECT_EQ(folded_name("g(std::basic_string_view<char, std::char_traits<char> >)"),
              "g(std::string_view)");
}

TEST(FoldedName, LeavesOutWhatTemplatesHaveByDefault) {
    EXPECT_EQ(folded_name("std::vector<int, std::allocator<int> >::reserve(unsigned long)"),
              "std::vector<int>::reserve(unsigned long)");
    EXPECT_EQ(folded_name("f(std::map<int, int, std::less<int>, "
                          "std::allocator<std::pair<int const, int> > >&)"),
              "f(std::map<int, int>&)");
    // One that is not the default's place stays.
    EXPECT_EQ(folded_name("use<std::allocator<int> >"), "use<std::allocator<int>>");
}

TEST(FoldedName, LosesReturnTypesAndClones) {
    EXPECT_EQ(folded_name("void std::vector<int, std::allocator<int> >::f<int>(int&&)"),
              "std::vector<int>::f<int>(int&&)");
    EXPECT_EQ(folded_name("shop::login(int) [clone .isra.0] [clone .cold]"), "shop::login(int)");
}

TEST(FoldedName, LongListsAreFolded) {
    EXPECT_EQ(folded_name("shop::Cache<std::string, shop::internal::Connection, 1024>::put(int)"),
              "shop::Cache<...>::put(int)");
    EXPECT_EQ(folded_name("f(shop::internal::Connection const&, shop::internal::Request const&)"),
              "f(...)");
}

TEST(FoldedName, OperatorsAreNoBrackets) {
    EXPECT_EQ(folded_name("std::ostream& operator<< <char>(std::ostream&, char)"),
              "operator<< <char>(std::ostream&, char)");
    EXPECT_EQ(folded_name("bool shop::operator> (int, int)"), "shop::operator> (int, int)");
    EXPECT_EQ(folded_name("operator new(unsigned long)"), "operator new(unsigned long)");
}

/// A name comes from a file that nobody vouches for.
TEST(FoldedName, NeedsNoSense) {
    EXPECT_EQ(folded_name("("), "(");
    EXPECT_EQ(folded_name(")>]"), ")>]");
    EXPECT_EQ(folded_name("f<a,"), "f<a,");
    EXPECT_EQ(folded_name("operator"), "operator");
    for (const char open : {'<', '(', '[', '{'}) {
        const std::string name(100'000, open); // deeper than any stack of ours
        EXPECT_LE(folded_name(name).size(), name.size());
    }
}

} // namespace
} // namespace memleax
