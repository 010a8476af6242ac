// SPDX-License-Identifier: GPL-3.0-or-later
#include <vector>

#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// At each offset that begins an instruction of `code`: CFA - sp, as frame_edge says.
std::optional<std::int32_t> at(const Bytes& code, std::size_t offset) {
    const auto bytes = std::as_bytes(std::span(code));
    const auto edge = arch::frame_edge(bytes.first(offset), bytes.subspan(offset));
    if (!edge) {
        return std::nullopt;
    }
    EXPECT_EQ(edge->return_address_offset, -8);
    return edge->cfa_offset;
}

const Bytes kFunction{
    0xf3, 0x0f, 0x1e, 0xfa,       //  0 endbr64
    0x55,                         //  4 push %rbp
    0xbf, 0x03, 0x00, 0x00, 0x00, //  5 mov $3,%edi
    0x48, 0x89, 0xe5,             // 10 mov %rsp,%rbp
    0x53,                         // 13 push %rbx
    0x48, 0x83, 0xec, 0x08,       // 14 sub $8,%rsp
    0xe8, 0x00, 0x00, 0x00, 0x00, // 18 call
    0x48, 0x8b, 0x5d, 0xf8,       // 23 mov -8(%rbp),%rbx
    0xc9,                         // 27 leave
    0x0f, 0xb7, 0xc0,             // 28 movzwl %ax,%eax
    0xc3,                         // 31 ret
};

TEST(FrameStateWithoutTables, FramePointerFunction) {
    EXPECT_EQ(at(kFunction, 0), 8);
    EXPECT_EQ(at(kFunction, 4), 8);
    EXPECT_EQ(at(kFunction, 5), 16) << "the compiler moved an instruction between the two";
    EXPECT_EQ(at(kFunction, 10), 16);
    EXPECT_EQ(at(kFunction, 13), std::nullopt);
    EXPECT_EQ(at(kFunction, 14), std::nullopt);
    EXPECT_EQ(at(kFunction, 18), std::nullopt);
    EXPECT_EQ(at(kFunction, 23), std::nullopt);
    EXPECT_EQ(at(kFunction, 27), std::nullopt);
    EXPECT_EQ(at(kFunction, 28), 8);
    EXPECT_EQ(at(kFunction, 31), 8);
}

TEST(FrameStateWithoutTables, EpilogueThatPops) {
    const Bytes code{
        0x48, 0x83, 0xc4, 0x18, // 0 add $24,%rsp
        0x5b,                   // 4 pop %rbx
        0x41, 0x5c,             // 5 pop %r12
        0xc3,                   // 7 ret
    };
    EXPECT_EQ(at(code, 0), 48);
    EXPECT_EQ(at(code, 4), 24);
    EXPECT_EQ(at(code, 5), 16);
    EXPECT_EQ(at(code, 7), 8);
    const Bytes with_fp{0x5b, 0x5d, 0xc3}; // pop %rbx; pop %rbp; ret
    EXPECT_EQ(at(with_fp, 0), std::nullopt);
    EXPECT_EQ(at(with_fp, 2), 8);
}

// crtstuff.c's deregister_tm_clones has no table and no frame pointer.
TEST(FrameStateWithoutTables, LeafWithBranches) {
    const Bytes code{
        0x48, 0x8d, 0x3d, 0, 0, 0, 0, //  0 lea x(%rip),%rdi
        0x48, 0x39, 0xf8,             //  7 cmp %rdi,%rax
        0x74, 0x05,                   // 10 je 17
        0x48, 0x85, 0xc0,             // 12 test %rax,%rax
        0xff, 0xe0,                   // 15 jmp *%rax
        0xc3,                         // 17 ret
    };
    EXPECT_EQ(at(code, 0), 8);
    EXPECT_EQ(at(code, 7), 8);
    EXPECT_EQ(at(code, 12), std::nullopt);
    const Bytes loop{0x74, 0xfe, 0xeb, 0xfc}; // je self; jmp
    EXPECT_EQ(at(loop, 0), std::nullopt);
}

TEST(FrameStateWithoutTables, LinkageTable) {
    const Bytes plt{
        0xff, 0x35, 0x82, 0x3e, 0x00, 0x00,       //  0 push y(%rip)
        0xff, 0x25, 0x84, 0x3e, 0x00, 0x00,       //  6 jmp *x(%rip)
        0x0f, 0x1f, 0x40, 0x00,                   // 12
        0xf3, 0x0f, 0x1e, 0xfa,                   // 16 endbr64
        0x68, 0x00, 0x00, 0x00, 0x00,             // 20 push $0
        0xe9, 0xe2, 0xff, 0xff, 0xff,             // 25 jmp PLT0
        0xf3, 0x0f, 0x1e, 0xfa,                   // 30 endbr64
        0xf2, 0xff, 0x25, 0x01, 0x00, 0x00, 0x00, // 34 bnd jmp *x(%rip)
    };
    EXPECT_EQ(at(plt, 0), 16);
    EXPECT_EQ(at(plt, 6), 24);
    EXPECT_EQ(at(plt, 16), 8);
    EXPECT_EQ(at(plt, 20), 8);
    EXPECT_EQ(at(plt, 25), 16);
    EXPECT_EQ(at(plt, 30), 8);
    EXPECT_EQ(at(plt, 34), 8);
}

TEST(FrameStateWithoutTables, BytesThatEndOrMeanNothing) {
    EXPECT_EQ(at({}, 0), std::nullopt);
    for (std::size_t n = 0; n < kFunction.size(); ++n) {
        const Bytes cut(kFunction.begin(), kFunction.begin() + static_cast<std::ptrdiff_t>(n));
        (void)at(cut, 0);
        (void)at(cut, n / 2);
    }
    EXPECT_EQ(at(Bytes(48, 0x06), 0), std::nullopt);
    EXPECT_EQ(at(Bytes(48, 0x90), 0), std::nullopt) << "too far to follow";
}

TEST(SignalFrame, ReturnCodeAndRegisters) {
    const Bytes musl{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    EXPECT_TRUE(arch::is_signal_return_code(std::as_bytes(std::span(musl))));
    EXPECT_FALSE(arch::is_signal_return_code(std::as_bytes(std::span(musl).first(8))));
    EXPECT_FALSE(arch::is_signal_return_code(std::as_bytes(std::span(kFunction))));

    std::vector<std::uint64_t> words(arch::kSignalFrameBytes / 8);
    for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = i;
    }
    const auto regs = arch::registers_from_signal_frame(std::as_bytes(std::span(words)));
    ASSERT_TRUE(regs.has_value());
    EXPECT_EQ(arch::pc(*regs), CodeAddr(5 + 16)); // REG_RIP of <sys/ucontext.h>
    EXPECT_EQ(arch::sp(*regs), RemoteAddr(5 + 15));
    EXPECT_EQ(arch::dwarf_register(*regs, 6), 5U + 10); // rbp
    EXPECT_EQ(arch::dwarf_register(*regs, 3), 5U + 11); // rbx
    EXPECT_EQ(arch::dwarf_register(*regs, 12), 5U + 4); // r12
    EXPECT_FALSE(arch::registers_from_signal_frame(std::as_bytes(std::span(words)).first(200)));
}

} // namespace
} // namespace memleax
