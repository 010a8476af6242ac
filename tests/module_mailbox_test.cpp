// SPDX-License-Identifier: GPL-3.0-or-later
// The modules between two threads: one looks at the process, the other gets copies. Under
// ThreadSanitizer (the preset "tsan") what they share without a lock is reported.
#include "memleax/session/module_mailbox.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "elf_support.hpp"

namespace memleax {
namespace {

class ModuleMailboxTest : public ::testing::Test {
  protected:
    void put() {
        ASSERT_TRUE(map_.refresh());
        mailbox_.put(map_);
    }

    test::OwnMemory memory_;
    ModuleMap map_{test::own_pid(), memory_};
    ModuleMailbox mailbox_;
};

TEST_F(ModuleMailboxTest, WhatIsTakenIsNotThereAgain) {
    EXPECT_FALSE(mailbox_.take());
    put();
    const auto modules = mailbox_.take();
    ASSERT_TRUE(modules);
    EXPECT_EQ(modules->all.size(), map_.all().size());
    ASSERT_NE(modules->main, nullptr);
    EXPECT_EQ(modules->main->path, map_.main()->path);
    EXPECT_FALSE(mailbox_.take());
}

TEST_F(ModuleMailboxTest, OnlyTheLastListIsKept) {
    put();
    const std::size_t first = map_.all().size();
    map_.forget_all();
    put();
    const auto modules = mailbox_.take();
    ASSERT_TRUE(modules);
    ASSERT_EQ(modules->all.size(), 2 * first);
    EXPECT_TRUE(modules->all.front()->unloaded);
    EXPECT_FALSE(modules->all.back()->unloaded);
}

// The map writes `unloaded` into modules of which the reader has copies.
TEST_F(ModuleMailboxTest, WhatWasTakenDoesNotChange) {
    constexpr unsigned kChanges = 20;
    std::atomic<bool> all_put{false};
    std::thread tracer([&] {
        for (unsigned i = 0; i < kChanges; ++i) {
            map_.forget_all();
            put();
        }
        all_put = true;
    });
    std::optional<ModuleMailbox::Modules> last;
    for (bool over = false; !over;) {
        over = all_put;
        if (auto taken = mailbox_.take()) {
            last = std::move(taken);
        }
        for (const auto& module : last ? last->all : std::vector<std::shared_ptr<const Module>>{}) {
            const bool is_newest = module->loaded == last->all.back()->loaded;
            ASSERT_EQ(module->unloaded.has_value(), !is_newest) << module->path;
        }
    }
    tracer.join();
    ASSERT_TRUE(last);
    EXPECT_EQ(last->all.size(), map_.all().size());
    EXPECT_EQ(last->all.size() % kChanges, 0U);
}

} // namespace
} // namespace memleax
