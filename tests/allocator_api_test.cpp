// SPDX-License-Identifier: GPL-3.0-or-later
// The table of the functions that are watched, and what the options put into it.
#include "memleax/allocators/allocator_api.hpp"

#include <gtest/gtest.h>

#include "memleax/cli/options.hpp"

namespace memleax {
namespace {

std::shared_ptr<const AllocatorApi> given(std::vector<const char*> words) {
    words.insert(words.begin(), "memleax");
    words.insert(words.end(), {"1", nullptr});
    auto parsed = parse_options(static_cast<int>(words.size() - 1), words.data());
    const auto* exit = std::get_if<EarlyExit>(&parsed);
    EXPECT_EQ(exit, nullptr) << exit->text;
    return exit == nullptr ? std::get<Options>(parsed).allocators : nullptr;
}

TEST(AllocatorApiTest, KnowsPrefixesAndOperators) {
    const AllocatorApi api;
    for (const char* name : {"malloc", "je_malloc", "_rjem_sdallocx", "tc_free", "mi_zalloc",
                             "rpmalloc", "dlfree", "scalable_realloc", "_ZnwmSt11align_val_t"}) {
        ASSERT_NE(api.find(name), nullptr) << name;
        EXPECT_EQ(api.find(name)->name, name);
        EXPECT_EQ(api.find(name)->family, kMemory);
    }
    for (const char* name : {"odd_malloc", "xmalloc", "mi_heap_malloc", "je_large_malloc", ""}) {
        EXPECT_EQ(api.find(name), nullptr) << name;
    }
    for (const char* name : {"_Znam", "tc_new", "mi_new_n"}) {
        EXPECT_TRUE(api.find(name)->throws) << name;
    }
    EXPECT_FALSE(api.find("_ZnwmRKSt9nothrow_t")->throws);
    EXPECT_TRUE(api.of_user().empty());
    EXPECT_EQ(api.families(), 1U);
}

TEST(AllocatorApiTest, ArgumentsCountFromOne) {
    const auto api = given({"--alloc", "get:size=3,count=2,out=1", "--free", "put:ptr=2,next=4",
                            "--realloc", "grow:ptr=1,size=6"});
    const AllocatorFunction& get = *api->find("get");
    EXPECT_EQ(get.call, AllocatorCall::allocate);
    EXPECT_EQ(get.size_argument, 2);
    EXPECT_EQ(get.count_argument, 1);
    EXPECT_EQ(get.out_argument, 0);
    EXPECT_EQ(get.origin, "--alloc get:size=3,count=2,out=1");
    EXPECT_EQ(api->find("put")->pointer_argument, 1);
    EXPECT_EQ(api->find("put")->next_argument, 3);
    EXPECT_EQ(api->find("grow")->call, AllocatorCall::realloc);
    EXPECT_EQ(api->find("grow")->size_argument, 5);
    EXPECT_EQ(api->of_user().size(), 3U);
}

TEST(AllocatorApiTest, TheUserKnowsBetter) {
    const auto api = given({"--alloc", "malloc:size=2", "--prefix", "odd_"});
    EXPECT_EQ(api->find("malloc")->size_argument, 1);
    EXPECT_EQ(api->find("odd_calloc")->count_argument, 0);
}

TEST(AllocatorApiTest, ProbesAreNotAllocators) {
    const auto api = given({"--probe", "libc:memory_*", "--probe", "fsync"});
    EXPECT_EQ(api->probes().all(), (std::vector<std::string>{"libc:memory_*", "fsync"}));
    EXPECT_TRUE(api->filter().may_be_in("fsync"));
    EXPECT_EQ(api->find("fsync"), nullptr);
}

TEST(AllocatorApiTest, PairsWithAFunctionInCommonAreOneFamily) {
    const auto api = given({"--resource", "open,close:int", "--resource", "fopen,fclose",
                            "--resource", "socket,close:int", "--resource", "open,close_it:int"});
    const AllocatorFamily descriptors = api->find("open")->family;
    EXPECT_NE(descriptors, kMemory);
    for (const char* name : {"close", "socket", "close_it"}) {
        EXPECT_EQ(api->find(name)->family, descriptors) << name;
        EXPECT_TRUE(api->find(name)->is_descriptor) << name;
    }
    EXPECT_EQ(api->find("fopen")->family, api->find("fclose")->family);
    EXPECT_NE(api->find("fopen")->family, descriptors);
    EXPECT_EQ(api->families(), 3U);
}

TEST(AllocatorApiTest, HandlesOfDifferentKindsAreDifferent) {
    const auto api = given({"--resource", "open,close:int", "--resource", "fopen,fclose"});
    const AllocatorFunction& open = *api->find("open");
    const AllocatorFunction& fopen = *api->find("fopen");
    EXPECT_FALSE(is_no_handle(open, 0));
    EXPECT_FALSE(is_no_handle(open, 0xffffffff00000000)); // an int: only half of it counts
    EXPECT_TRUE(is_no_handle(open, 0xffffffff));
    EXPECT_TRUE(is_no_handle(fopen, 0));
    EXPECT_FALSE(is_no_handle(fopen, 16));
    EXPECT_NE(handle_address(open, 16), handle_address(fopen, 16));
    EXPECT_EQ(handle_address(open, 16), handle_address(*api->find("close"), 0x700000010));
    EXPECT_EQ(handle_address(*api->find("malloc"), 16), RemoteAddr(16));
}

} // namespace
} // namespace memleax
