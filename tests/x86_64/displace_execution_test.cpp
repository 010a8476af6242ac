// SPDX-License-Identifier: GPL-3.0-or-later
// Runs instructions where they stand and then in a slot: registers, flags, memory and the place
// where control goes must be the same. And once more for each point of the slot, being sent back
// to the original code there.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "displace_machine_support.hpp"

namespace memleax::test {
namespace {

struct Case {
    const char* text;
    std::vector<std::uint8_t> bytes;
    bool near_only = false; ///< has an operand within the reach of a disp32
};

// The instruction stands at 0x100; exit 1 is at 0x140, data from 0x1000 on (displace_machine).
const std::vector<Case> kCases{
    {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}},
    {"nopw 0x0(%rax,%rax,1)", {0x66, 0x0f, 0x1f, 0x44, 0, 0}},
    {"push %rbp", {0x55}},
    {"pop %rbx", {0x5b}},
    {"leave", {0xc9}},
    {"pushfq", {0x9c}},
    {"sub $0x18,%rsp", {0x48, 0x83, 0xec, 0x18}},
    {"mov %rsp,%rbp", {0x48, 0x89, 0xe5}},
    {"test %eax,%eax", {0x85, 0xc0}},
    {"adc %r8,%r9", {0x4d, 0x11, 0xc1}},
    {"cmovb %r8,%r10", {0x4d, 0x0f, 0x42, 0xd0}},
    {"rep stos %al,(%rdi)", {0xf3, 0xaa}},
    {"mov %fs:0x28,%rax", {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}},
    {"mov 0xef9(%rip),%rax", {0x48, 0x8b, 0x05, 0xf9, 0x0e, 0, 0}, true},
    {"mov %r8,0xf01(%rip)", {0x4c, 0x89, 0x05, 0x01, 0x0f, 0, 0}, true},
    {"lea 0xef9(%rip),%r9", {0x4c, 0x8d, 0x0d, 0xf9, 0x0e, 0, 0}, true},
    {"data16 lea 0xef8(%rip),%rdi", {0x66, 0x48, 0x8d, 0x3d, 0xf8, 0x0e, 0, 0}, true},
    {"cmpb $0x1,0xf01(%rip)", {0x80, 0x3d, 0x01, 0x0f, 0, 0, 0x01}, true},
    {"movl $0x5060708,0xf00(%rip)", {0xc7, 0x05, 0, 0x0f, 0, 0, 8, 7, 6, 5}, true},
    {"cmpw $0x1234,0xf00(%rip)", {0x66, 0x81, 0x3d, 0, 0x0f, 0, 0, 0x34, 0x12}, true},
    {"lock addq $0x7f,0xf00(%rip)", {0xf0, 0x48, 0x83, 0x05, 0, 0x0f, 0, 0, 0x7f}, true},
    {"movups 0xef9(%rip),%xmm0", {0x0f, 0x10, 0x05, 0xf9, 0x0e, 0, 0}, true},
    {"push 0xefa(%rip)", {0xff, 0x35, 0xfa, 0x0e, 0, 0}, true},
    {"jmp 0x140 (rel8)", {0xeb, 0x3e}},
    {"jmp 0x140", {0xe9, 0x3b, 0, 0, 0}},
    {"bnd jmp 0x140", {0xf2, 0xe9, 0x3a, 0, 0, 0}},
    {"loop 0x140", {0xe2, 0x3e}},
    {"loope 0x140", {0xe1, 0x3e}},
    {"loopne 0x140", {0xe0, 0x3e}},
    {"jrcxz 0x140", {0xe3, 0x3e}},
    {"jecxz 0x140", {0x67, 0xe3, 0x3d}},
    {"addr32 loop 0x140", {0x67, 0xe2, 0x3d}},
    {"call 0x140", {0xe8, 0x3b, 0, 0, 0}},
    {"addr32 call 0x140", {0x67, 0xe8, 0x3a, 0, 0, 0}},
    {"data16 data16 rex.W call 0x140", {0x66, 0x66, 0x48, 0xe8, 0x38, 0, 0, 0}},
    {"jmp *%rdx", {0xff, 0xe2}},
    {"jmp *0x10(%rsi)", {0xff, 0x66, 0x10}},
    {"bnd jmp *0xef9(%rip)", {0xf2, 0xff, 0x25, 0xf9, 0x0e, 0, 0}, true},
    {"call *%rdx", {0xff, 0xd2}},
    {"notrack call *%rdx", {0x3e, 0xff, 0xd2}},
    {"call *0x18(%rsi)", {0xff, 0x56, 0x18}},
    {"call *(%rdi,%rcx,8)", {0xff, 0x14, 0xcf}},
    {"call *0x8(%rbp)", {0xff, 0x55, 0x08}},
    {"call *(%r12)", {0x41, 0xff, 0x14, 0x24}},
    {"call *0x28(%r12)", {0x41, 0xff, 0x54, 0x24, 0x28}},
    {"call *0xf0a(%rip)", {0xff, 0x15, 0x0a, 0x0f, 0, 0}, true},
    {"call *(%rsp)", {0xff, 0x14, 0x24}},
    {"call *0x10(%rsp)", {0xff, 0x54, 0x24, 0x10}},
    {"call *0x78(%rsp)", {0xff, 0x54, 0x24, 0x78}},
    {"call *0x108(%rsp)", {0xff, 0x94, 0x24, 0x08, 0x01, 0, 0}},
    {"call *0x8(%rsp,%rcx,8)", {0xff, 0x54, 0xcc, 0x08}},
    {"ret", {0xc3}},
    {"rep ret", {0xf3, 0xc3}},
    {"ret $0x20", {0xc2, 0x20, 0}},
};

std::vector<Case> all_cases() {
    std::vector<Case> cases = kCases;
    for (std::uint8_t condition = 0; condition < 16; ++condition) {
        cases.push_back({"jcc 0x140 (rel8)", {static_cast<std::uint8_t>(0x70 | condition), 0x3e}});
        cases.push_back(
            {"jcc 0x140", {0x0f, static_cast<std::uint8_t>(0x80 | condition), 0x3a, 0, 0, 0}});
    }
    return cases;
}

/// Registers at random, but those that the cases use as pointers and counters.
CpuState random_state(const Machine& machine, std::mt19937_64& random) {
    constexpr std::uint64_t kArithmeticFlags = 0x8d5; // OF SF ZF AF PF CF
    CpuState state;
    std::generate(state.registers.begin(), state.registers.end(), std::ref(random));
    std::generate(state.xmm0.begin(), state.xmm0.end(), std::ref(random));
    state.flags = (random() & kArithmeticFlags) | 0x202;
    state.registers[CpuState::rcx] = random() % 3;
    state.registers[CpuState::rdx] = machine.exit(random() % 16);
    state.registers[CpuState::rsi] = machine.data() + 0x100;
    state.registers[CpuState::rdi] = machine.data() + 0x220;
    state.registers[CpuState::r12] = machine.data() + 0x338;
    state.registers[CpuState::rbp] = machine.stack() + 0x48;
    state.registers[CpuState::rsp] = machine.stack();
    return state;
}

struct Outcome {
    CpuState state;
    std::vector<std::uint8_t> memory;
    bool operator==(const Outcome&) const = default;
};

Outcome run(Machine& machine, const Case& instruction, CodeAddr entry, const CpuState& state) {
    machine.load(instruction.bytes);
    const CpuState after = machine.run(entry, state);
    return {after, machine.memory()};
}

void expect_same(const Case& instruction, Machine& machine, const Region& slot) {
    SCOPED_TRACE(instruction.text);
    std::mt19937_64 random(42);
    const CodeAddr slot_at(slot.begin());
    const auto displaced = arch::displace(machine.from(), instruction.bytes, slot_at);
    ASSERT_TRUE(displaced.ok()) << displaced.error().message();
    ASSERT_LE(displaced->code.size(), arch::kSlotBytes);
    // A jump that is missing, or goes astray within the slot, runs into an int3.
    std::fill_n(slot.bytes().begin(), arch::kSlotBytes, std::uint8_t{0xcc});
    std::copy(displaced->code.begin(), displaced->code.end(), slot.bytes().begin());

    std::vector<unsigned> reached(displaced->points.size());
    for (int round = 0; round < 64; ++round) {
        const CpuState state = random_state(machine, random);
        const Outcome expected = run(machine, instruction, machine.from(), state);
        const Outcome moved = run(machine, instruction, slot_at, state);
        EXPECT_EQ(moved.state.exit, expected.state.exit);
        EXPECT_EQ(moved.state.registers, expected.state.registers);
        EXPECT_EQ(moved.state.flags, expected.state.flags);
        EXPECT_TRUE(moved == expected);
        for (std::size_t i = 0; i < reached.size(); ++i) {
            const LeaveAtPoint leave(slot.bytes(), displaced->points[i]);
            EXPECT_TRUE(run(machine, instruction, slot_at, state) == expected) << "left at " << i;
            reached[i] += leave.was_reached() ? 1 : 0;
        }
        if (testing::Test::HasFailure()) {
            return;
        }
    }
    for (std::size_t i = 0; i < reached.size(); ++i) {
        EXPECT_GT(reached[i], 0U) << "point " << i;
    }
}

/// All cases with the code and the slot at these addresses.
void expect_all_same(std::uint64_t code, std::uint64_t slot, bool near) {
    auto code_region = Region::map_at(code, Machine::kSize);
    auto slot_region = Region::map_at(slot, 4096);
    if (!code_region || !slot_region) {
        GTEST_SKIP() << "the addresses are taken (by AddressSanitizer, in its build)";
    }
    Machine machine(*std::move(code_region));
    for (const Case& instruction : all_cases()) {
        if (near || !instruction.near_only) {
            expect_same(instruction, machine, *slot_region);
        }
    }
}

// AddressSanitizer leaves the lowest 2 GiB and what lies above 16 TiB to the program.
constexpr std::uint64_t kHigh = 0x500000000000;

TEST(DisplaceExecution, SlotAbove) {
    expect_all_same(kHigh, kHigh + 0x3fff0000, true);
}
TEST(DisplaceExecution, SlotBelow) {
    expect_all_same(kHigh, kHigh - 0x3fff0000, true);
}
TEST(DisplaceExecution, SlotFar) {
    expect_all_same(kHigh, kHigh + 0x200000000, false);
}
TEST(DisplaceExecution, CodeInTheLowest2GiB) {
    expect_all_same(0x20000000, 0x30000000, true);
}
// Push sign-extends what must be zero-extended here.
TEST(DisplaceExecution, CodeAbove2GiB) {
    expect_all_same(0x90000000, 0xa0000000, true);
}
// The low half of a return address is negative as an imm32 here, and the high half is not -1.
TEST(DisplaceExecution, LowHalfIsNegative) {
    expect_all_same(kHigh + 0x90000000, kHigh + 0xa0000000, true);
}

} // namespace
} // namespace memleax::test
