// SPDX-License-Identifier: GPL-3.0-or-later
// Functions that are entered behind their first instruction, too.
#include "memleax/elf/inner_entries.hpp"

#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "process_support.hpp"

namespace memleax {
namespace {

using testing::fixture_path;
using ::testing::UnorderedElementsAre;

/// Of these functions of a file, the names of those that are entered so.
std::set<std::string> inner_entries(const std::string& path, SymbolTable table,
                                    const std::set<std::string>& names) {
    const auto image = ElfImage::open(path);
    EXPECT_TRUE(image) << image.error().message();
    std::map<ElfAddr, std::string> functions;
    std::vector<ElfAddr> addresses;
    (*image)->for_each_function(table, [&](const ElfSymbol& symbol) {
        if (names.contains(std::string(symbol.name))) {
            functions.emplace(symbol.address, symbol.name);
            addresses.push_back(symbol.address);
        }
    });
    EXPECT_EQ(functions.size(), names.size());
    std::set<std::string> found;
    for (const ElfAddr address : find_inner_entries(**image, addresses)) {
        found.insert(functions.at(address));
    }
    return found;
}

TEST(InnerEntries, AColdPartComesBackAndAnotherFunctionBegins) {
    EXPECT_THAT(inner_entries(fixture_path("inner_entries"), SymbolTable::full,
                              {"cold_malloc", "cold_cfree", "cold_free", "cold_dallocx", "main"}),
                UnorderedElementsAre("cold_malloc", "cold_cfree"));
}

TEST(InnerEntries, AllocatorsHaveNone) {
    EXPECT_THAT(inner_entries(test::library_path("libc.so.6"), SymbolTable::dynamic,
                              {"malloc", "free", "calloc", "realloc", "posix_memalign",
                               "aligned_alloc", "mmap", "munmap", "sigaction"}),
                UnorderedElementsAre());
    EXPECT_THAT(inner_entries(test::library_path("libstdc++.so.6"), SymbolTable::dynamic,
                              {"_Znwm", "_ZdlPv", "_ZdlPvm", "_Znam"}),
                UnorderedElementsAre());
}

} // namespace
} // namespace memleax
