// SPDX-License-Identifier: GPL-3.0-or-later
// Moves what real programs have where breakpoints go: the first instruction of every function, and
// the one behind every call.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <capstone/capstone.h>
#include <elf.h>
#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax {
namespace {

/// The code of an ELF file with section headers, and its functions.
class Code {
  public:
    explicit Code(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(file), {});
        if (bytes_.size() < sizeof(Elf64_Ehdr)) {
            return;
        }
        const auto header = at<Elf64_Ehdr>(0);
        for (unsigned i = 0; i < header.e_shnum; ++i) {
            const auto section = at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
            if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0) {
                sections_.push_back(section);
            }
            if (section.sh_type == SHT_DYNSYM || section.sh_type == SHT_SYMTAB) {
                add_symbols(section);
            }
        }
    }

    struct Range {
        std::uint64_t address;
        std::span<const std::uint8_t> bytes;
    };
    [[nodiscard]] std::vector<Range> sections() const {
        std::vector<Range> ranges;
        for (const auto& section : sections_) {
            ranges.push_back({section.sh_addr, file_bytes(section.sh_offset, section.sh_size)});
        }
        return ranges;
    }
    [[nodiscard]] const std::set<std::uint64_t>& functions() const { return functions_; }
    [[nodiscard]] std::span<const std::uint8_t> at_address(std::uint64_t address) const {
        for (const Range& range : sections()) {
            if (address >= range.address && address - range.address < range.bytes.size()) {
                return range.bytes.subspan(address - range.address);
            }
        }
        return {};
    }

  private:
    template <class T> [[nodiscard]] T at(std::uint64_t offset) const {
        T value{};
        std::memcpy(&value, bytes_.data() + offset, sizeof value);
        return value;
    }
    [[nodiscard]] std::span<const std::uint8_t> file_bytes(std::uint64_t offset,
                                                           std::uint64_t size) const {
        return {reinterpret_cast<const std::uint8_t*>(bytes_.data()) + offset, size};
    }
    void add_symbols(const Elf64_Shdr& table) {
        for (std::uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
            const auto symbol = at<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
            const unsigned type = ELF64_ST_TYPE(symbol.st_info);
            if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_value != 0) {
                functions_.insert(symbol.st_value);
            }
        }
    }

    std::vector<char> bytes_;
    std::vector<Elf64_Shdr> sections_;
    std::set<std::uint64_t> functions_;
};

/// Calls visit(address, instruction) one instruction after the other, as objdump does.
template <class Visit> void decode_linearly(const Code::Range& range, Visit visit) {
    csh handle = 0;
    ASSERT_EQ(cs_open(CS_ARCH_X86, CS_MODE_64, &handle), CS_ERR_OK);
    cs_insn* instruction = cs_malloc(handle);
    const std::uint8_t* code = range.bytes.data();
    std::size_t left = range.bytes.size();
    std::uint64_t address = range.address;
    while (left > 0) {
        if (cs_disasm_iter(handle, &code, &left, &address, instruction)) {
            visit(*instruction);
        } else { // data, or newer than capstone
            ++code;
            ++address;
            --left;
        }
    }
    cs_free(instruction, 1);
    cs_close(&handle);
}

struct Tally {
    unsigned moved = 0;
    unsigned refused = 0;
    std::map<std::string, unsigned> reasons;
};

void try_to_move(const Code& code, std::uint64_t address, Tally* tally) {
    const auto bytes = code.at_address(address);
    if (bytes.empty()) {
        return;
    }
    const CodeAddr from(address + 0x7f0000000000);
    const CodeAddr slot(from + 0x40000000);
    const auto displaced =
        arch::displace(from, bytes.first(std::min(bytes.size(), arch::kMaxInstructionBytes)), slot);
    if (displaced) {
        ++tally->moved;
        EXPECT_LE(displaced->code.size(), arch::kSlotBytes);
        EXPECT_EQ(displaced->points.front().original, from);
        return;
    }
    ++tally->refused;
    const std::string reason = displaced.error().message();
    std::string example;
    for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 15))) {
        char text[4];
        std::snprintf(text, sizeof text, " %02x", byte);
        example += text;
    }
    if (tally->reasons[reason]++ < 3) {
        std::printf("    %#lx: %s:%s\n", static_cast<unsigned long>(address), reason.c_str(),
                    example.c_str());
    }
}

/// What may be refused, and nothing else.
const std::set<std::string> kRefused{
    "system call instruction", // an assembly wrapper that begins with it, after a call of getpid
    "undefined instruction",   // ud2 behind a call that never returns
    "software interrupt",      // int3 as padding behind such a call, __builtin_trap
    "unknown instruction",     // data behind such a call; newer than capstone
};

void expect_movable(const std::string& path) {
    const Code code(path);
    if (code.sections().empty()) {
        GTEST_SKIP() << path << " is not here";
    }
    std::set<std::uint64_t> places = code.functions();
    for (const Code::Range& range : code.sections()) {
        decode_linearly(range, [&](const cs_insn& instruction) {
            if (instruction.id == X86_INS_CALL) {
                places.insert(instruction.address + instruction.size);
            }
        });
    }
    Tally tally;
    for (const std::uint64_t address : places) {
        try_to_move(code, address, &tally);
    }
    std::printf("%s: %u moved, %u refused\n", path.c_str(), tally.moved, tally.refused);
    for (const auto& [reason, count] : tally.reasons) {
        std::printf("    %5u %s\n", count, reason.c_str());
        EXPECT_TRUE(kRefused.contains(reason)) << reason;
    }
    EXPECT_GT(tally.moved, 1000U);
    EXPECT_LE(tally.refused * 1000, tally.moved);
}

TEST(DisplaceSweep, LibC) {
    expect_movable("/lib/x86_64-linux-gnu/libc.so.6");
}

TEST(DisplaceSweep, RedisServer) {
    expect_movable("/usr/bin/redis-server");
}

} // namespace
} // namespace memleax
