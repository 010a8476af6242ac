// SPDX-License-Identifier: GPL-3.0-or-later
// Packages of .dwo files, whole and damaged. That their units are right is seen in names_test.cpp.
#include "../src/symbols/dwo_package.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "program_support.hpp"

namespace memleax {
namespace {

struct Case {
    const char* name;
    const char* build;
};

/// A package of two units.
class DwoPackages : public ::testing::TestWithParam<Case> {
  protected:
    test::TemporaryFolder folder;
    std::string whole;
    std::size_t index = 0; ///< where .debug_cu_index is in it, and its size
    std::size_t size = 0;

    void SetUp() override {
        if (const auto tool = testing::missing_tool(GetParam().build); !tool.empty()) {
            GTEST_SKIP() << tool << " is not installed";
        }
        test::write_file(folder.file("a.c"),
                         "int other(int);\nint main(void) { return other(1); }\n");
        test::write_file(folder.file("b.c"), "int other(int n) { return n * 3; }\n");
        const std::string command = fmt::format("cd {} && {}", folder.file(""), GetParam().build);
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
        whole = test::read_file(folder.file("program.dwp"));
        const ElfFile file(open(folder.file("program.dwp").c_str(), O_RDONLY | O_CLOEXEC));
        has_section(file.get(), [this](std::string_view name, const GElf_Shdr& header, Elf_Scn*) {
            if (name == ".debug_cu_index") {
                index = header.sh_offset;
                size = header.sh_size;
            }
            return false;
        });
        ASSERT_GT(size, 16U);
    }
    [[nodiscard]] std::unique_ptr<DwoPackage> package(const std::string& bytes) const {
        std::ofstream(folder.file("package"), std::ios::binary) << bytes;
        return DwoPackage::open(open(folder.file("package").c_str(), O_RDONLY | O_CLOEXEC));
    }
    [[nodiscard]] std::uint64_t id(std::size_t slot) const {
        std::uint64_t value = 0;
        std::memcpy(&value, whole.data() + index + 16 + slot * 8, sizeof value);
        return value;
    }
    [[nodiscard]] std::size_t slots() const {
        std::uint32_t value = 0;
        std::memcpy(&value, whole.data() + index + 12, sizeof value);
        return value;
    }
    /// How many units can be taken out.
    [[nodiscard]] std::size_t count(const DwoPackage& from) const {
        std::size_t units = 0;
        for (std::size_t slot = 0; slot < slots(); ++slot) {
            const int fd = id(slot) != 0 ? from.make_dwo(id(slot)) : -1;
            if (fd >= 0) {
                const ElfFile dwo(fd);
                EXPECT_EQ(elf_kind(dwo.get()), ELF_K_ELF);
                ++units;
            }
        }
        return units;
    }
};

TEST_P(DwoPackages, HaveTheirUnits) {
    const auto all = package(whole);
    ASSERT_NE(all, nullptr);
    EXPECT_EQ(count(*all), 2U);
    EXPECT_EQ(all->make_dwo(id(0) ^ id(1) ^ 0x5555), -1);
}

TEST_P(DwoPackages, WithAnyWordOfTheIndexChanged) {
    for (const std::uint32_t value : {0U, 1U, 0x7fffffffU, 0xfffffff0U, 0xffffffffU}) {
        for (std::size_t at = 0; at + sizeof value <= size; at += sizeof value) {
            std::string damaged = whole;
            std::memcpy(damaged.data() + index + at, &value, sizeof value);
            if (const auto some = package(damaged)) {
                EXPECT_LE(count(*some), 2U);
            }
        }
    }
}

TEST_P(DwoPackages, OtherFilesAreNone) {
    EXPECT_EQ(package(test::read_file(folder.file("program"))), nullptr);
    EXPECT_EQ(package("text"), nullptr);
}

// binutils 2.40 has a dwp for DWARF 4 only, and llvm-dwp-14 does not take what gcc makes.
INSTANTIATE_TEST_SUITE_P(
    Dwarf, DwoPackages,
    ::testing::Values(Case{"version_4", "cc -g -gdwarf-4 -gsplit-dwarf a.c b.c -o program && "
                                        "timeout 60 dwp -e program"},
                      Case{"version_5", "clang-14 -g -gdwarf-5 -gsplit-dwarf -c a.c b.c && "
                                        "clang-14 a.o b.o -o program && "
                                        "timeout 60 llvm-dwp-14 -e program -o program.dwp"}),
    [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace memleax
