// SPDX-License-Identifier: GPL-3.0-or-later
// The code of units that are not in .debug_aranges, and of no others.
#include "../src/symbols/unit_ranges.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "program_support.hpp"

namespace memleax {
namespace {

/// A library of two units, each with one function of its name.
class UnitRangesOf {
  public:
    /// `prepare`: commands for in.o and out.o.
    explicit UnitRangesOf(const std::string& prepare) {
        test::write_file(folder_.file("in.c"), "int in(int n) { return n + 1; }\n");
        test::write_file(folder_.file("out.c"), "int out(int n) { return n * 3; }\n");
        const std::string command = fmt::format("cd {} && gcc -g -fPIC -c in.c out.c && {} && "
                                                "gcc -nostdlib -shared in.o out.o -o library",
                                                folder_.file(""), prepare);
        EXPECT_EQ(std::system(command.c_str()), 0) << command;
        fd_ = open(folder_.file("library").c_str(), O_RDONLY | O_CLOEXEC);
        dwarf_ = dwarf_begin(fd_, DWARF_C_READ);
        EXPECT_NE(dwarf_, nullptr);
        ranges_.emplace(dwarf_);
    }
    UnitRangesOf(const UnitRangesOf&) = delete;
    UnitRangesOf& operator=(const UnitRangesOf&) = delete;
    ~UnitRangesOf() {
        ranges_.reset();
        dwarf_end(dwarf_);
        close(fd_);
    }
    [[nodiscard]] std::size_t size() const { return ranges_->size(); }
    /// Is the unit of this source found at its own code?
    [[nodiscard]] bool has(const std::string& source) const {
        Dwarf_CU* unit = nullptr;
        Dwarf_Die die;
        while (dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
            Dwarf_Addr begin = 0;
            if (dwarf_diename(&die) == source && dwarf_lowpc(&die, &begin) == 0) {
                auto found = ranges_->find(begin);
                return found && dwarf_diename(&*found) == source;
            }
        }
        ADD_FAILURE() << "no unit " << source;
        return false;
    }

  private:
    test::TemporaryFolder folder_;
    int fd_ = -1;
    Dwarf* dwarf_ = nullptr;
    std::optional<UnitRanges> ranges_;
};

class UnitRangesTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!testing::has_program("gcc") || !testing::has_program("objcopy")) {
            GTEST_SKIP() << "gcc or objcopy is not installed";
        }
    }
    static std::string without_table(const std::string& objects) {
        return "for i in " + objects +
               "; do objcopy --remove-section .debug_aranges "
               "--remove-section .rela.debug_aranges $i; done";
    }
};

TEST_F(UnitRangesTest, ReadsNoUnitOfACompleteTable) {
    const UnitRangesOf library("true");
    EXPECT_EQ(library.size(), 0U);
}

TEST_F(UnitRangesTest, ReadsTheUnitsThatAreMissing) {
    const UnitRangesOf library(without_table("out.o"));
    EXPECT_TRUE(library.has("out.c"));
    EXPECT_EQ(library.size(), 1U);
}

TEST_F(UnitRangesTest, ReadsAllUnitsWithoutATable) {
    const UnitRangesOf library(without_table("in.o out.o"));
    EXPECT_TRUE(library.has("in.c"));
    EXPECT_TRUE(library.has("out.c"));
    EXPECT_EQ(library.size(), 2U);
}

} // namespace
} // namespace memleax
