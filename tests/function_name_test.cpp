// SPDX-License-Identifier: GPL-3.0-or-later
#include "../src/report/function_name.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(BareName, LosesWhatIsNotTheName) {
    EXPECT_EQ(bare_name("main"), "main");
    EXPECT_EQ(bare_name(""), "");
    EXPECT_EQ(bare_name("shop::Store::open(unsigned int)"), "shop::Store::open");
    EXPECT_EQ(bare_name("shop::Server::login(shop::Request const&) [clone .isra.0] [clone .cold]"),
              "shop::Server::login");
    EXPECT_EQ(bare_name("a::b(int) const &"), "a::b");
    EXPECT_EQ(bare_name("void std::vector<int, std::allocator<int> >::f<int>(int&&)"),
              "std::vector<int, std::allocator<int> >::f<int>");
}

TEST(BareName, KeepsParenthesesOfTheName) {
    EXPECT_EQ(bare_name("(anonymous namespace)::run(int)"), "(anonymous namespace)::run");
    EXPECT_EQ(bare_name("f(int)::{lambda(char*)#1}::operator()(char*) const"),
              "f(int)::{lambda(char*)#1}::operator()");
    EXPECT_EQ(bare_name("a::b() const::{lambda()#2}::operator()() const"),
              "a::b() const::{lambda()#2}::operator()");
    EXPECT_EQ(bare_name("S::operator()"), "S::operator()");
}

TEST(BareName, KnowsOperators) {
    EXPECT_EQ(bare_name("operator new(unsigned long)"), "operator new");
    EXPECT_EQ(bare_name("std::ostream& operator<< <char>(std::ostream&, char)"),
              "operator<< <char>");
    EXPECT_EQ(bare_name("std::string std::operator+<char, std::less<char> >(std::string&&, char)"),
              "std::operator+<char, std::less<char> >");
    EXPECT_EQ(bare_name("auto a::operator<=> <int>(a const&) const"), "a::operator<=> <int>");
    EXPECT_EQ(bare_name("a::operator->() const"), "a::operator->");
    EXPECT_EQ(bare_name("bool a::operator<(a const&, a const&)"), "a::operator<");
    EXPECT_EQ(bare_name("a::operator unsigned long() const"), "a::operator unsigned long");
    EXPECT_EQ(bare_name("<fn() -> i32 as a::Keep>::keep"), "<fn() -> i32 as a::Keep>::keep");
}

/// Those of generated code, from perf maps.
TEST(BareName, NamesWithoutParametersMayHaveBlanks) {
    for (const char* name :
         {"JS:^createUnsafeBuffer node:internal/buffer:1056:28", "JS:*onReq /srv/my app/l.js:2:15",
          "py::handle:/srv/my app/main.py", "vtable stub"}) {
        EXPECT_EQ(bare_name(name), name);
    }
    EXPECT_EQ(bare_name("int java.lang.String.hashCode()"), "java.lang.String.hashCode");
}

TEST(HasParameters, LooksBeforeQualifiersAndClones) {
    for (const char* name : {"f(int)", "a::f() const", "a::f() volatile &&", "a::f() &",
                             "f(int) [clone .isra.0]", "a::f() const [clone .part.0] [clone .cold]",
                             "(anonymous namespace)::run()", "a::operator()(int) const"}) {
        EXPECT_TRUE(has_parameters(name)) << name;
    }
    for (const char* name : {"", "main", "f [clone .cold]", "(anonymous namespace)::run",
                             "<fn() -> i32 as a::Keep>::keep", "a::f::{{closure}}", "f(int"}) {
        EXPECT_FALSE(has_parameters(name)) << name;
    }
}

TEST(BareName, TakesWhatIsBroken) {
    EXPECT_EQ(bare_name(")"), ")");
    EXPECT_EQ(bare_name("("), "(");
    EXPECT_EQ(bare_name(" "), " ");
    EXPECT_EQ(bare_name("f(int"), "f(int");
    EXPECT_EQ(bare_name("operator"), "operator");
}

} // namespace
} // namespace memleax
