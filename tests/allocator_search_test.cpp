// SPDX-License-Identifier: GPL-3.0-or-later
// What is looked for in a file's symbol tables besides allocation functions (whose tests are those
// of the whole): each place is to be told of once.
#include "memleax/allocators/allocator_search.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "process_support.hpp"

namespace memleax {
namespace {

ModulePlaces places_of(const std::string& path) {
    auto image = ElfImage::open(path);
    EXPECT_TRUE(image) << image.error().message();
    Module module;
    module.path = module.name = path;
    module.image = image ? *std::move(image) : nullptr;
    return AllocatorSearch(std::make_shared<AllocatorApi>()).find(module, false);
}

/// In both symbol tables.
int symbols_of(const std::string& path, const std::string& name) {
    int count = 0;
    if (const auto image = ElfImage::open(path)) {
        for (const SymbolTable table : {SymbolTable::dynamic, SymbolTable::full}) {
            (*image)->for_each_function(
                table, [&](const ElfSymbol& symbol) { count += symbol.name == name ? 1 : 0; });
        }
    }
    return count;
}

// The recovery record knows one jump at a place: of two, a part of the first would stay if memleax
// were killed between the two writes.
TEST(AllocatorSearch, ASigactionIsToldOfOnce) {
    const std::string program = testing::fixture_path("trap_actions-interposed");
    ASSERT_EQ(symbols_of(program, "sigaction"), 2);
    EXPECT_EQ(places_of(program).signal_actions.size(), 1U);
}

TEST(AllocatorSearch, ALastCallIsToldOfOnceHoweverManyNamesItHas) {
    const std::string c_library = test::library_path("libc.so.6");
    ASSERT_GE(symbols_of(c_library, "_exit") + symbols_of(c_library, "_Exit"), 2);
    EXPECT_EQ(places_of(c_library).last_calls.size(), 1U);
}

} // namespace
} // namespace memleax
