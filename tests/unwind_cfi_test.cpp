// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstring>

#include <gtest/gtest.h>
#include <sys/auxv.h>

#include "build_paths.hpp"
#include "cpu_support.hpp"
#include "memleax/elf/cfi.hpp"

namespace memleax {
namespace {

using Kind = RegisterRule::Kind;

Result<std::shared_ptr<ElfImage>> vdso() {
    const auto* begin = reinterpret_cast<const std::byte*>(getauxval(AT_SYSINFO_EHDR)); // NOLINT
    return ElfImage::from_memory(std::vector<std::byte>(begin, begin + 4096 * 2), "[vdso]");
}

/// The row at the first instruction of every function: the return address is in its register, or
/// the word before the CFA.
unsigned check_entries(const std::shared_ptr<ElfImage>& image, SymbolTable which) {
    CfiTable table(image);
    unsigned rows = 0;
    image->for_each_function(which, [&](const ElfSymbol& symbol) {
        const auto row = table.row(symbol.address);
        if (!row || row->registers[arch::kDwarfReturnAddress].kind == Kind::undefined) {
            return; // _start, or assembly without a table
        }
        if (symbol.name.find(".cold") != std::string_view::npos) {
            return; // a part of a function
        }
        ++rows;
        EXPECT_EQ(row->cfa_register, arch::kDwarfStackPointer) << symbol.name;
        EXPECT_EQ(row->cfa_offset, test::kEntryCfaOffset) << symbol.name;
        const RegisterRule& ra = row->registers[arch::kDwarfReturnAddress];
        if (arch::kHasLinkRegister) {
            EXPECT_EQ(ra.kind, Kind::same_value) << symbol.name;
        } else {
            EXPECT_EQ(ra.kind, Kind::offset) << symbol.name;
            EXPECT_EQ(ra.offset, -8) << symbol.name;
        }
        EXPECT_FALSE(row->signal_frame);
    });
    return rows;
}

TEST(CfiTable, FunctionsOfAProgram) {
    const auto image = ElfImage::open(MEMLEAX_FIXTURES "/unwind_lazy");
    ASSERT_TRUE(image.ok());
    EXPECT_GT(check_entries(*image, SymbolTable::full), 10U);
}

TEST(CfiTable, ImageFromMemory) {
    if (getauxval(AT_SYSINFO_EHDR) == 0) {
        GTEST_SKIP() << "there is no vDSO (under valgrind)";
    }
    const auto image = vdso();
    ASSERT_TRUE(image.ok()) << image.error().message();
    EXPECT_GE(check_entries(*image, SymbolTable::dynamic), test::kVdsoFunctionsWithTables);
}

TEST(CfiTable, NoImageAndNoRow) {
    CfiTable none(nullptr);
    EXPECT_FALSE(none.row(ElfAddr(0x1000)));
    const auto image = ElfImage::open(MEMLEAX_FIXTURES "/unwind_lazy");
    ASSERT_TRUE(image.ok());
    EXPECT_FALSE(CfiTable(*image).row(ElfAddr(0)));
    EXPECT_FALSE(CfiTable(*image).row(ElfAddr(~0ULL)));
}

// .eh_frame has nothing for this file, .debug_frame has.
TEST(CfiTable, DebugFrame) {
    const auto image = ElfImage::open(MEMLEAX_FIXTURES "/unwind_now");
    ASSERT_TRUE(image.ok());
    CfiTable table(*image);
    unsigned found = 0;
    (*image)->for_each_function(SymbolTable::full, [&](const ElfSymbol& symbol) {
        if (symbol.name == "run_debug_frame") {
            ++found;
            EXPECT_TRUE(table.row(symbol.address).has_value());
        } else if (symbol.name == "run_no_tables") {
            ++found;
            EXPECT_FALSE(table.row(symbol.address).has_value());
        }
    });
    EXPECT_EQ(found, 2U);
}

// Tables are untrusted: any byte of the image may be anything.
TEST(CfiTable, DamagedImages) {
    const auto* begin = reinterpret_cast<const std::byte*>(getauxval(AT_SYSINFO_EHDR)); // NOLINT
    const std::vector<std::byte> whole(begin, begin + 4096 * 2);
    std::uint64_t seed = 7;
    for (unsigned round = 0; round < 300; ++round) {
        std::vector<std::byte> bytes = whole;
        for (unsigned i = 0; i < 20; ++i) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            bytes[64 + (seed >> 33) % 4000] = static_cast<std::byte>(seed >> 56);
        }
        const auto image = ElfImage::from_memory(std::move(bytes), "damaged");
        if (image) {
            CfiTable table(*image);
            for (std::uint64_t pc = 0x500; pc < 0x1400; pc += 37) {
                (void)table.row(ElfAddr(pc));
            }
        }
    }
}

} // namespace
} // namespace memleax
