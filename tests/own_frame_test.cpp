// SPDX-License-Identifier: GPL-3.0-or-later
// Which functions are the user's, and which a standard library's or an allocator's.
#include "memleax/report/own_frame.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

bool is_own(const std::string& function) {
    return is_own_code(frame(2, "app", function));
}

TEST(OwnFrame, RustsLibraryIsPassedOver) {
    for (const char* name :
         {"alloc::rc::Rc<T>::new",
          "alloc::sync::Arc<T>::new",
          "alloc::fmt::format::{{closure}}",
          "alloc::collections::btree::map::BTreeMap<K,V>::insert",
          "alloc::vec::from_elem",
          "alloc::slice::<impl [T]>::to_vec",
          "alloc::borrow::Cow<B>::into_owned",
          "hashbrown::raw::alloc::inner::do_alloc",
          "core::option::Option<T>::map_or_else",
          "std::collections::hash::map::HashMap<K, V, S, A>::insert",
          "__rust_alloc",
          "<alloc::raw_vec::RawVecInner<_>>::reserve::do_reserve_and_handle::<alloc::alloc::"
          "Global>",
          "<T as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
          "<&mut alloc::string::String as core::fmt::Write::write_fmt::SpecWriteFmt>::"
          "spec_write_fmt",
          "<alloc::vec::Vec<shop::Row> as core::clone::Clone>::clone",
          "<str as alloc::string::ToString>::to_string",
          "<[shop::Row]>::to_vec",
          "<&[u8] as <alloc::ffi::c_str::CString>::new::SpecNewImpl>::spec_new_impl",
          "<fn() -> i32 as core::ops::function::FnOnce<()>>::call_once",
          "<<std::sync::once::Once>::call_once<std::rt::cleanup::{closure#0}>::{closure#0} as "
          "core::ops::function::FnOnce<(&std::sync::once::OnceState,)>>::call_once"}) {
        EXPECT_FALSE(is_own(name)) << name;
        EXPECT_TRUE(is_standard_library(frame(2, "app", name))) << name;
    }
}

TEST(OwnFrame, AnImplIsTheUsersByItsTypeOrItsTrait) {
    for (const char* name :
         {"shop::Row::new", "<shop::Row>::new", "<shop::Row as core::fmt::Debug>::fmt",
          "<&shop::Row as core::iter::traits::collect::IntoIterator>::into_iter",
          "<alloc::vec::Vec<u8> as shop::Keep>::keep", "<T as shop::Keep>::keep",
          "<str as shop::Keep>::keep", "<[u8] as shop::Keep>::keep",
          "<shop::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
          "<<shop::Row>::new::Part as core::clone::Clone>::clone",
          "<shop::Row<alloc::alloc::Global> as core::clone::Clone>::clone",
          // What only looks like one: other languages, and broken names.
          "<module>", "<anonymous>", "<", "<T as", "<shop::Row as core::", "alloc::Pool::get",
          "allocate", "core_dump"}) {
        EXPECT_TRUE(is_own(name)) << name;
    }
}

TEST(OwnFrame, CppHasNamespacesOfRustsNames) {
    for (const char* name :
         {"core::Session::open(unsigned int)", "alloc::vec::Pool::get(unsigned long)",
          "core::Session::text() const", "core::Session::text[abi:cxx11]() const volatile",
          "core::Session::take() &", "core::Session::take() &&", "core::Session::take() const &",
          "core::grow(int) [clone .isra.0]", "core::grow(int) [clone .constprop.0] [clone .cold]",
          "core::Session::text() const [clone .part.0]", "void core::grow<int>(int) [clone .cold]",
          "core::run()::{lambda()#1}::operator()() const", "hashbrown::Map::find(int) const",
          "alloc::vec::Pool::get(unsigned long) const"}) {
        EXPECT_TRUE(is_own(name)) << name;
        EXPECT_FALSE(is_standard_library(frame(2, "app", name))) << name;
    }
    // A clone of Rust's is Rust's.
    EXPECT_FALSE(is_own("alloc::vec::from_elem [clone .llvm.1234]"));
    EXPECT_FALSE(is_own("std::vector<int>::push_back(int const&)"));
}

/// What the library does for each of the user's types, and what hands out its memory.
TEST(OwnFrame, SomeTraitsAreTheLibrarysForEveryType) {
    for (const char* name :
         {"<shop::Row as alloc::string::ToString>::to_string",
          "<shop::Row as alloc::string::SpecToString>::spec_to_string",
          "<shop::Row as alloc::vec::spec_from_elem::SpecFromElem>::from_elem::<A>",
          "<shop::Row as alloc::slice::hack::ConvertVec>::to_vec",
          "<shop::Row as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
          "<shop::Row as core::convert::Into<u8>>::into",
          "<shop::Jemalloc as core::alloc::global::GlobalAlloc>::alloc"}) {
        EXPECT_FALSE(is_own(name)) << name;
    }
    EXPECT_TRUE(is_own("<shop::Row as shop::SpecToString>::to_string"));
    EXPECT_TRUE(is_own("<shop::Row as shop::ToString>::to_string"));
    EXPECT_TRUE(is_own("<shop::Row as <shop::Row>::new::Local>::f"));
}

TEST(OwnFrame, OperatorsOfAClassAreLikeTheGlobalOnes) {
    for (const char* name :
         {"operator new(unsigned long)", "v8::internal::Malloced::operator new(unsigned long)",
          "shop::Row::operator new[](unsigned long)", "shop::Pool<shop::Row>::operator new",
          "void* shop::Row::operator new<int>(unsigned long, int)",
          "shop::(anonymous namespace)::Row::operator new(unsigned long, std::nothrow_t const&)"}) {
        EXPECT_TRUE(is_allocator(frame(2, "app", name))) << name;
        EXPECT_FALSE(is_own(name)) << name;
    }
    EXPECT_FALSE(is_own("shop::Row::operator delete(void*)"));
    EXPECT_FALSE(is_own("shop::Row::operator delete[](void*, unsigned long)"));
    EXPECT_FALSE(is_standard_library(frame(2, "app", "shop::Row::operator new(unsigned long)")));
    for (const char* name :
         {"shop::Row::operator newtype() const", "shop::Row::operator_new(unsigned long)",
          "shop::Row::operator new(unsigned long)::{lambda()#1}::operator()() const",
          "shop::Row::new_row()", "my_operator new"}) {
        EXPECT_TRUE(is_own(name)) << name;
    }
}

SourceFrame inlined(const std::string& function, const std::string& file) {
    return frame(2, "app", function, {}, file, 137, true);
}

TEST(OwnFrame, InlinesOfTheCLibrarysHeadersArePassedOver) {
    for (const char* file :
         {"/usr/include/x86_64-linux-gnu/bits/stdio2.h", "/usr/include/bits/stdlib.h",
          "/opt/arm/usr/include/bits/unistd.h", "/usr/include/fortify/stdio.h",
          "/nix/store/0c7c96-glibc-2.38-44-dev/include/bits/stdio2.h"}) {
        EXPECT_FALSE(is_own_code(inlined("asprintf", file))) << file;
        EXPECT_EQ(own_frame({frame(1, "libc.so.6", "malloc"), inlined("asprintf", file),
                             frame(2, "app", "name_of", 4, "shop.c", 7)}),
                  2U);
    }
    // Other libraries' headers, the user's, and a function in which a line of a header stands.
    EXPECT_TRUE(is_own_code(inlined("pool_get", "/usr/include/pool/pool.h")));
    EXPECT_TRUE(is_own_code(inlined("pool_get", "/home/me/shop/include/bits/pool.h")));
    EXPECT_TRUE(is_own_code(inlined("shop::Row::put", "/usr/include/c++/12/bits/stl_tree.h")));
    EXPECT_TRUE(is_own_code(inlined("name_of", "")));
    SourceFrame whole = inlined("name_of", "/usr/include/x86_64-linux-gnu/bits/stdio2.h");
    whole.inlined = false;
    EXPECT_TRUE(is_own_code(whole));
}

/// PostgreSQL without symbols: AllocSetAlloc is static, MemoryContextAlloc is exported.
TEST(OwnFrame, NamelessPartsOfAWrapperArePassedOver) {
    const SourceFrame malloc = frame(1, "libc.so.6", "malloc");
    const SourceFrame nameless = frame(0x5c7860, "postgres");
    const SourceFrame wrapper = frame(3, "postgres", "MemoryContextAlloc", 36);
    const SourceFrame caller = frame(4, "postgres", "CompleteCachedPlan", 467);
    EXPECT_EQ(own_frame({malloc, nameless, wrapper, caller}), 3U);
    EXPECT_EQ(own_frame({malloc, nameless, wrapper, frame(5, "postgres", "pstrdup"), caller}), 4U);
    EXPECT_EQ(own_frame({malloc, nameless, nameless, nameless, wrapper, caller}), 5U);
    EXPECT_EQ(own_frame({malloc, wrapper, nameless, wrapper, caller}), 4U);
    // The wrapper's caller may have no name.
    EXPECT_EQ(own_frame({malloc, nameless, wrapper, frame(0x358000, "postgres"), caller}), 3U);
    // Named by the user.
    const Wrappers pool({"pool_*"});
    EXPECT_EQ(own_frame({malloc, nameless, frame(3, "postgres", "pool_get"), caller}, pool), 3U);
    // Nobody calls it: the one that has a name.
    EXPECT_EQ(own_frame({malloc, nameless, wrapper, frame(9, "libc.so.6", "start_thread")}), 2U);
}

TEST(OwnFrame, OtherNamelessFunctionsAreThePlace) {
    const SourceFrame malloc = frame(1, "libc.so.6", "malloc");
    const SourceFrame nameless = frame(0x5c7860, "postgres");
    const SourceFrame wrapper = frame(3, "postgres", "MemoryContextAlloc", 36);
    const SourceFrame caller = frame(4, "postgres", "CompleteCachedPlan", 467);
    EXPECT_EQ(own_frame({malloc, nameless, caller}), 1U);
    EXPECT_EQ(own_frame({malloc, nameless, caller, wrapper, caller}), 1U);
    EXPECT_EQ(own_frame({malloc, wrapper, nameless, caller}), 2U);
    EXPECT_EQ(own_frame({malloc, nameless}), 1U);
    // Of another module: a callback of the program's.
    EXPECT_EQ(own_frame({malloc, frame(0x1234, "app"), wrapper, caller}), 1U);
    EXPECT_EQ(own_frame({malloc, nameless, frame(0x1234, "app"), wrapper, caller}), 1U);
    // Too far away to be a part of it.
    EXPECT_EQ(own_frame({malloc, nameless, nameless, nameless, nameless, wrapper, caller}), 1U);
    // A function with a name.
    EXPECT_EQ(own_frame({malloc, frame(2, "postgres", "copyObject"), wrapper, caller}), 1U);
}

/// A function that was learned to be a wrapper may also do what leaks.
TEST(OwnFrame, NamelessFunctionsOfALearnedWrapperAreThePlace) {
    const SourceFrame malloc = frame(1, "libc.so.6", "malloc");
    const SourceFrame get_memory = frame(2, "app", "get_memory", 4, "mem.c", 7);
    std::vector<Backtrace> stacks;
    for (unsigned i = 0; i < 20; ++i) {
        stacks.push_back({malloc, get_memory, frame(100 + i, "app", fmt::format("caller_{}", i))});
    }
    Wrappers wrappers;
    wrappers.learn(stacks);
    ASSERT_TRUE(wrappers.contains(get_memory));
    EXPECT_EQ(
        own_frame({malloc, frame(0x1234, "app"), get_memory, frame(9, "app", "main")}, wrappers),
        1U);
}

TEST(OwnFrame, NamesMayNestAsDeepAsTheyAreLong) {
    const std::string deep(60'000, '<');
    EXPECT_TRUE(is_own(deep));
    std::string closed;
    for (int i = 0; i < 10'000; ++i) {
        closed += "<a::";
    }
    for (int i = 0; i < 10'000; ++i) {
        closed += ">::f";
    }
    EXPECT_TRUE(is_own(closed));
}

} // namespace
} // namespace memleax
