// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/symbols/debug_symbols.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <elf.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "process_support.hpp"

namespace memleax {
namespace {

namespace fs = std::filesystem;
using testing::fixture_path;

constexpr const char* kStripped = "libstripped_plugin.so";
constexpr const char* kDebugFile = "libstripped_plugin.so.debug";

/// Gives each segment another address.
void move_segments(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = [&file](std::uint64_t offset, auto* object, bool write) {
        file.seekg(static_cast<std::streamoff>(offset));
        write ? void(file.write(reinterpret_cast<char*>(object), sizeof *object))
              : void(file.read(reinterpret_cast<char*>(object), sizeof *object));
    };
    Elf64_Ehdr header;
    at(0, &header, false);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        const std::uint64_t offset = header.e_phoff + i * sizeof segment;
        at(offset, &segment, false);
        segment.p_vaddr += 0x10000000;
        at(offset, &segment, true);
    }
    ASSERT_TRUE(file.good());
}

/// Stripped libraries in a folder of their own, without their debug files.
class DebugSymbolsTest : public ::testing::Test {
  protected:
    test::TemporaryFolder folder;

    std::string copy(const std::string& fixture, const std::string& name) const {
        test::copy_file(fixture_path(fixture), folder.file(name));
        return folder.file(name);
    }
    static Module module_of(const std::string& path) {
        Module module;
        module.path = path;
        module.name = fs::path(path).filename();
        auto image = ElfImage::open(path);
        EXPECT_TRUE(image) << image.error().message();
        module.image = image ? *image : nullptr;
        return module;
    }
};

TEST_F(DebugSymbolsTest, AreTheImagesOwnFromThenOn) {
    const Module module = module_of(copy(kStripped, kStripped));
    EXPECT_FALSE(module.image->has_full_symbols());
    copy(kDebugFile, kDebugFile);
    const auto symbols = find_debug_symbols(module, {}, "");
    ASSERT_NE(symbols, nullptr);
    module.image->set_debug_symbols(symbols);
    ASSERT_TRUE(module.image->has_full_symbols());
    std::set<std::string> exported;
    std::set<std::string> all;
    const auto functions = [&module](SymbolTable table, std::set<std::string>* names) {
        module.image->for_each_function(
            table, [names](const ElfSymbol& symbol) { names->emplace(symbol.name); });
    };
    functions(SymbolTable::dynamic, &exported);
    functions(SymbolTable::full, &all);
    for (const char* name : {"malloc", "calloc", "realloc", "aligned_alloc", "free"}) {
        EXPECT_FALSE(exported.contains(name)) << name;
        EXPECT_TRUE(all.contains(name)) << name;
    }
}

TEST_F(DebugSymbolsTest, OfAFolder) {
    const Module module = module_of(copy(kStripped, kStripped));
    fs::create_directory(folder.file("debug"));
    copy(kDebugFile, std::string("debug/") + kDebugFile);
    EXPECT_EQ(find_debug_symbols(module, {}, ""), nullptr);
    const DebugSources sources{.folders = {folder.file("debug")}, .debuginfod = nullptr};
    EXPECT_NE(find_debug_symbols(module, sources, ""), nullptr);
}

TEST_F(DebugSymbolsTest, OfTheFileThatTheUserNames) {
    const Module module = module_of(copy(kStripped, kStripped));
    EXPECT_NE(find_debug_symbols(module, {}, copy(kDebugFile, "any-name")), nullptr);
}

// Breakpoints at its addresses would be anywhere.
TEST_F(DebugSymbolsTest, NeverOfAnotherBuild) {
    const Module module = module_of(copy(kStripped, kStripped));
    const std::string other = copy("libstripped_je_plugin.so.debug", kDebugFile);
    EXPECT_EQ(find_debug_symbols(module, {}, ""), nullptr);
    EXPECT_EQ(find_debug_symbols(module, {}, other), nullptr);
    const DebugSources sources{.folders = {folder.file("")}, .debuginfod = nullptr};
    EXPECT_EQ(find_debug_symbols(module, sources, other), nullptr);
}

TEST_F(DebugSymbolsTest, NoneOfAFileThatHasNoSymbols) {
    const Module module = module_of(copy(kStripped, kStripped));
    EXPECT_EQ(find_debug_symbols(module, {}, copy(kStripped, "the-library-itself")), nullptr);
    EXPECT_EQ(find_debug_symbols(module, {}, folder.file("nothing")), nullptr);
}

// prelink(8) moves a file; what was split off before stays where it was.
TEST_F(DebugSymbolsTest, NoneAtOtherAddresses) {
    const Module module = module_of(copy(kStripped, kStripped));
    const std::string path = copy(kDebugFile, kDebugFile);
    ASSERT_NE(find_debug_symbols(module, {}, path), nullptr);
    move_segments(path);
    EXPECT_EQ(find_debug_symbols(module, {}, path), nullptr);
}

} // namespace
} // namespace memleax
