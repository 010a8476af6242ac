// SPDX-License-Identifier: GPL-3.0-or-later
/// The instructions that displace_execution_test.cpp executes.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

namespace memleax {

using Bytes = std::vector<std::uint8_t>;

/// What the hole between the two parts of an instruction is filled with.
enum class Hole { none, operand, pointer, taken8, taken_back8, taken32, taken_back32 };

struct Case {
    const char* text;
    Bytes head;
    Hole hole = Hole::none;
    Bytes tail{};
};

inline void PrintTo(const Case& c, std::ostream* out) {
    *out << c.text;
}

inline const std::vector<Case>& displace_cases() {
    using H = Hole;
    static const std::vector<Case> all{
        {"nop", {0x90}},
        {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}},
        {"nopw 0(%rax,%rax,1)", {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}},
        {"push %rbp", {0x55}},
        {"push %rsp", {0x54}},
        {"push %r15", {0x41, 0x57}},
        {"pop %r9", {0x41, 0x59}},
        {"push $-7", {0x6a, 0xf9}},
        {"pushfq", {0x9c}},
        {"leave", {0xc9}},
        {"mov %rsp,%rbp", {0x48, 0x89, 0xe5}},
        {"sub $0x28,%rsp", {0x48, 0x83, 0xec, 0x28}},
        {"mov %rdi,-0x18(%rsp)", {0x48, 0x89, 0x7c, 0x24, 0xe8}}, // into the red zone
        {"mov -0x18(%rsp),%rdi", {0x48, 0x8b, 0x7c, 0x24, 0xe8}},
        {"adc %rdx,%rax", {0x48, 0x11, 0xd0}},
        {"xor %eax,%eax", {0x31, 0xc0}},
        {"test %rax,%rax", {0x48, 0x85, 0xc0}},
        {"cmp $3,%rax", {0x48, 0x83, 0xf8, 0x03}},
        {"imul %rdx,%r8", {0x4c, 0x0f, 0xaf, 0xc2}},
        {"cmovg %r9,%r8", {0x4d, 0x0f, 0x4f, 0xc1}},
        {"setbe %al", {0x0f, 0x96, 0xc0}},
        {"lahf", {0x9f}},
        {"std", {0xfd}},
        {"lock cmpxchg %rdx,(%rdi)", {0xf0, 0x48, 0x0f, 0xb1, 0x17}},
        {"rep movsb", {0xf3, 0xa4}},
        {"rep stosl", {0xf3, 0xab}},
        {"repe cmpsb", {0xf3, 0xa6}},
        {"movups (%rsi),%xmm3", {0x0f, 0x10, 0x1e}},
        {"pxor %xmm1,%xmm2", {0x66, 0x0f, 0xef, 0xd1}},
        {"movabs $0x1122334455667788,%rax",
         {0x48, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}},

        {"lea operand(%rip),%rax", {0x48, 0x8d, 0x05}, H::operand},
        {"mov operand(%rip),%rax", {0x48, 0x8b, 0x05}, H::operand},
        {"mov %r9,operand(%rip)", {0x4c, 0x89, 0x0d}, H::operand},
        {"add operand(%rip),%r8", {0x4c, 0x03, 0x05}, H::operand},
        {"cmp $9,operand(%rip)", {0x83, 0x3d}, H::operand, {0x09}},
        {"movl $0x01020304,operand(%rip)", {0xc7, 0x05}, H::operand, {4, 3, 2, 1}},
        {"addw $0x1234,operand(%rip)", {0x66, 0x81, 0x05}, H::operand, {0x34, 0x12}},
        {"testb $0x55,operand(%rip)", {0xf6, 0x05}, H::operand, {0x55}},
        {"lock xadd %rax,operand(%rip)", {0xf0, 0x48, 0x0f, 0xc1, 0x05}, H::operand},
        {"push operand(%rip)", {0xff, 0x35}, H::operand},
        {"pop operand(%rip)", {0x8f, 0x05}, H::operand},
        {"cmove operand(%rip),%rdx", {0x48, 0x0f, 0x44, 0x15}, H::operand},
        {"movdqa operand(%rip),%xmm5", {0x66, 0x0f, 0x6f, 0x2d}, H::operand},
        {"movaps %xmm5,operand(%rip)", {0x0f, 0x29, 0x2d}, H::operand},
        {"pcmpestri $0xc,operand(%rip),%xmm1", {0x66, 0x0f, 0x3a, 0x61, 0x0d}, H::operand, {0x0c}},
        {"cvtsi2sdl operand(%rip),%xmm4", {0xf2, 0x0f, 0x2a, 0x25}, H::operand},

        {"jmp forward, rel8", {0xeb}, H::taken8},
        {"jmp back, rel8", {0xeb}, H::taken_back8},
        {"jmp forward, rel32", {0xe9}, H::taken32},
        {"bnd jmp back, rel32", {0xf2, 0xe9}, H::taken_back32},
        {"loopne forward", {0xe0}, H::taken8},
        {"loope back", {0xe1}, H::taken_back8},
        {"loop forward", {0xe2}, H::taken8},
        {"jrcxz back", {0xe3}, H::taken_back8},
        {"jecxz forward", {0x67, 0xe3}, H::taken8},
        {"loop with ecx, back", {0x67, 0xe2}, H::taken_back8},
        {"jne,pt forward", {0x3e, 0x75}, H::taken8},

        {"call forward", {0xe8}, H::taken32},
        {"call back", {0xe8}, H::taken_back32},
        {"data16 data16 rex.W call", {0x66, 0x66, 0x48, 0xe8}, H::taken32},
        {"call *%r11", {0x41, 0xff, 0xd3}},
        {"call *(%rbx)", {0xff, 0x13}},
        {"call *0x10(%rbx,%r10,8)", {0x42, 0xff, 0x54, 0xd3, 0x10}},
        {"call *(%r12)", {0x41, 0xff, 0x14, 0x24}},
        {"call *pointer(%rip)", {0xff, 0x15}, H::pointer},
        {"call *(%rsp)", {0xff, 0x14, 0x24}},
        {"call *0x18(%rsp)", {0xff, 0x54, 0x24, 0x18}},
        {"call *0x78(%rsp)", {0xff, 0x54, 0x24, 0x78}},
        {"call *0x80(%rsp)", {0xff, 0x94, 0x24, 0x80, 0, 0, 0}},
        {"call *8(%rsp,%r10,8)", {0x42, 0xff, 0x54, 0xd4, 0x08}},
        {"jmp *%r11", {0x41, 0xff, 0xe3}},
        {"notrack jmp *(%rbx,%r10,8)", {0x3e, 0x42, 0xff, 0x24, 0xd3}},
        {"jmp *pointer(%rip)", {0xff, 0x25}, H::pointer},
        {"bnd jmp *pointer(%rip)", {0xf2, 0xff, 0x25}, H::pointer},
        {"jmp *0x20(%rsp)", {0xff, 0x64, 0x24, 0x20}},
        {"ret", {0xc3}},
        {"repz ret", {0xf3, 0xc3}},
        {"ret $0x18", {0xc2, 0x18, 0}},
    };
    return all;
}

inline std::vector<Case> conditional_jumps() {
    static const char* const names[] = {"jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja",
                                        "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg"};
    std::vector<Case> all;
    for (std::uint8_t condition = 0; condition < 16; ++condition) {
        const auto short_opcode = static_cast<std::uint8_t>(0x70 + condition);
        const auto long_opcode = static_cast<std::uint8_t>(0x80 + condition);
        all.push_back({names[condition], {short_opcode}, Hole::taken8});
        all.push_back({names[condition], {0x0f, long_opcode}, Hole::taken_back32});
    }
    return all;
}

} // namespace memleax
