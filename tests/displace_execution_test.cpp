// SPDX-License-Identifier: GPL-3.0-or-later
// Displaced instructions, executed: each one runs in its original place and through its slot, from
// the same registers, flags and memory, and must leave the same ones, by the same way out. It is
// then left at each of its slot's points, to go on in the original code, with the same result.
//
//      region + 0x1000   the original: the instruction at kOriginal, and ways out around it
//             + 0x10000  data
//             + 0x20000  the stack, with rsp in its middle: what is below it is compared too
//             + 0x100000 the near slot; another one is 1.75 GiB away
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "arch.hpp"
#include "displace_cases.hpp"
#include "run_code_support.hpp"

namespace memleax {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegionSize = 0x200000;
constexpr std::size_t kOriginal = 0x1000 + 0x60;     ///< where the instruction stands
constexpr std::size_t kTaken = kOriginal + 0x40;     ///< its branch target,
constexpr std::size_t kTakenBack = kOriginal - 0x40; ///< or this one
constexpr std::size_t kData = 0x10000;
constexpr std::size_t kOperand = kData + 0x100; ///< of RIP-relative operands,
constexpr std::size_t kPointer = kData + 0x200; ///< or of those that are jumped through
constexpr std::size_t kStack = 0x20000;
constexpr std::size_t kNearSlot = 0x100000;
constexpr std::int64_t kFarSlot = 0x70000000;
constexpr std::size_t kResume = 0x80; ///< from the slot: goes on in the original code

class DisplaceExecution : public testing::TestWithParam<Case> {
  protected:
    static void SetUpTestSuite() {
        constexpr int prot = PROT_READ | PROT_WRITE | PROT_EXEC;
        void* p = mmap(nullptr, kRegionSize, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(p, MAP_FAILED);
        region_ = static_cast<std::uint8_t*>(p);
        for (const std::int64_t distance : {-kFarSlot, kFarSlot}) {
            p = mmap(region_ + distance, kPage, prot,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (p == region_ + distance) {
                far_slot_ = static_cast<std::uint8_t*>(p);
                return;
            }
        }
    }
    static void TearDownTestSuite() {
        munmap(region_, kRegionSize);
        if (far_slot_ != nullptr) {
            munmap(far_slot_, kPage);
            far_slot_ = nullptr;
        }
    }

    /// What an instruction can see and change, and which way it left.
    struct State {
        std::array<std::uint64_t, 16> general;
        std::uint64_t flags;
        std::uint32_t way_out;
        std::array<std::uint8_t, 256> xmm;
        std::vector<std::uint8_t> data;
        std::vector<std::uint8_t> stack;
    };

    static std::uint64_t address(std::size_t offset) {
        return reinterpret_cast<std::uint64_t>(region_ + offset);
    }
    static CodeAddr code_address(const std::uint8_t* place) {
        return CodeAddr(reinterpret_cast<std::uint64_t>(place));
    }

    /// jmp *0(%rip)
    static void write_jump(std::uint8_t* at, std::uint64_t target) {
        const std::uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
        std::memcpy(at, jump, sizeof jump);
        std::memcpy(at + sizeof jump, &target, sizeof target);
    }
    static void write_way_out(std::size_t at, void (*out)()) {
        write_jump(region_ + at, reinterpret_cast<std::uint64_t>(out));
    }

    static Bytes assemble(const Case& c) {
        const bool short_hole = c.hole == Hole::taken8 || c.hole == Hole::taken_back8;
        const std::size_t size = c.hole == Hole::none ? 0 : short_hole ? 1 : 4;
        const std::size_t end = kOriginal + c.head.size() + size + c.tail.size();
        std::size_t target = 0;
        switch (c.hole) {
        case Hole::none:
            break;
        case Hole::operand:
            target = kOperand;
            break;
        case Hole::pointer:
            target = kPointer;
            break;
        case Hole::taken8:
        case Hole::taken32:
            target = kTaken;
            break;
        case Hole::taken_back8:
        case Hole::taken_back32:
            target = kTakenBack;
            break;
        }
        Bytes code = c.head;
        const auto distance = static_cast<std::uint32_t>(target - end);
        for (std::size_t i = 0; i < size; ++i) {
            code.push_back(static_cast<std::uint8_t>(distance >> (8 * i)));
        }
        code.insert(code.end(), c.tail.begin(), c.tail.end());
        return code;
    }

    static void write_original(const Bytes& code) {
        std::memset(region_ + 0x1000, 0xcc, kPage);
        std::copy(code.begin(), code.end(), region_ + kOriginal);
        write_way_out(kOriginal + code.size(), memleax_test_exit_next);
        write_way_out(kTaken, memleax_test_exit_taken);
        write_way_out(kTakenBack, memleax_test_exit_taken_back);
    }

    /// Random registers and memory, but for the pointers that the cases use.
    static State random_state(std::uint32_t seed, bool uses_ecx) {
        std::mt19937_64 random(seed);
        State state{};
        for (auto& value : state.general) {
            value = seed % 4 == 0 ? random() & 0x80000000000000ff : random();
        }
        state.general[0] = seed % 2 == 0 ? random() : seed % 4; // rax
        // rcx: a short count, for those that repeat; for those with ecx, a zero that is none in rcx
        state.general[1] = uses_ecx && seed % 3 == 0 ? 1ULL << 32U : seed % 6;
        state.general[3] = address(kPointer);       // rbx
        state.general[4] = address(kStack + 0x800); // rsp
        state.general[5] = address(kData + 0x500);  // rbp
        state.general[6] = address(kData + 0x600);  // rsi
        state.general[7] = address(kData + 0x700);  // rdi
        state.general[10] = seed % 4;               // r10: an index
        state.general[11] = address(kTaken);        // r11
        state.general[12] = address(kPointer);      // r12
        // CF PF AF ZF SF DF OF, beside IF and the bit that is always set
        state.flags = (random() & 0xcd5) | 0x202;
        for (auto& byte : state.xmm) {
            byte = static_cast<std::uint8_t>(random());
        }
        state.data.resize(kPage);
        state.stack.resize(kPage);
        for (std::size_t i = 0; i < kPage; ++i) {
            state.data[i] = static_cast<std::uint8_t>(random());
            state.stack[i] = static_cast<std::uint8_t>(random());
        }
        for (std::size_t i = 0; i < 0x100; i += 8) { // a wrong word leads another way
            const std::uint64_t target = address(i % 16 == 0 ? kTaken : kTakenBack);
            std::memcpy(&state.data[0x200 + i], &target, sizeof target);
            std::memcpy(&state.stack[0x800 + i], &target, sizeof target);
        }
        if (seed % 2 == 0) { // what is compared is equal now and then
            std::copy_n(&state.data[0x600], 8, &state.data[0x700]);
        }
        return state;
    }

    static State run(const State& from, std::uint8_t* code) {
        std::copy(from.data.begin(), from.data.end(), region_ + kData);
        std::copy(from.stack.begin(), from.stack.end(), region_ + kStack);
        CpuState& in = memleax_test_in;
        std::copy(from.general.begin(), from.general.end(), in.general);
        in.flags = from.flags;
        asm volatile("fxsave64 %0" : "=m"(in.fx));
        std::copy(from.xmm.begin(), from.xmm.end(), in.fx + 160); // SDM volume 1, 10.5.1
        std::memset(&memleax_test_out, 0, sizeof memleax_test_out);
        memleax_test_enter(code);
        State to;
        const CpuState& out = memleax_test_out;
        std::copy_n(out.general, 16, to.general.begin());
        to.flags = out.flags;
        to.way_out = memleax_test_exit;
        std::copy_n(out.fx + 160, to.xmm.size(), to.xmm.begin());
        to.data.assign(region_ + kData, region_ + kData + kPage);
        to.stack.assign(region_ + kStack, region_ + kStack + kPage);
        return to;
    }

    static void expect_equal(const State& expected, const State& actual) {
        EXPECT_EQ(expected.general, actual.general);
        EXPECT_EQ(expected.flags, actual.flags);
        EXPECT_EQ(expected.way_out, actual.way_out);
        EXPECT_TRUE(expected.xmm == actual.xmm);
        EXPECT_TRUE(expected.data == actual.data);
        EXPECT_TRUE(expected.stack == actual.stack);
    }

    /// In place of what is at this point of the slot: back to the original code.
    static void leave_at(const arch::SlotPoint& point, std::uint8_t* slot) {
        std::uint8_t* at = slot + point.offset;
        const auto distance = static_cast<std::int32_t>(slot + kResume - (at + 5));
        at[0] = 0xe9; // jmp kResume
        std::memcpy(at + 1, &distance, sizeof distance);
        // lea sp_adjust(%rsp),%rsp; jmp original
        const std::uint8_t lea[] = {0x48, 0x8d, 0x64, 0x24,
                                    static_cast<std::uint8_t>(point.sp_adjust)};
        std::memcpy(slot + kResume, lea, sizeof lea);
        write_jump(slot + kResume + sizeof lea, point.original.value());
    }

    static void compare(const Bytes& code, std::uint8_t* slot) {
        const auto displaced =
            arch::displace(code_address(region_ + kOriginal), code, code_address(slot));
        ASSERT_TRUE(displaced.ok()) << displaced.error().message();
        ASSERT_LE(displaced->code.size(), arch::kSlotBytes);
        const auto write_slot = [&] {
            std::memset(slot, 0xcc, 2 * kResume);
            std::copy(displaced->code.begin(), displaced->code.end(), slot);
        };
        for (std::uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
            SCOPED_TRACE(testing::Message() << "seed " << seed);
            const State before = random_state(seed, code.front() == 0x67);
            const State expected = run(before, region_ + kOriginal);
            write_slot();
            {
                SCOPED_TRACE("through the slot");
                expect_equal(expected, run(before, slot));
            }
            for (const arch::SlotPoint& point : displaced->points) {
                SCOPED_TRACE(testing::Message() << "left at +" << unsigned(point.offset));
                write_slot();
                leave_at(point, slot);
                expect_equal(expected, run(before, slot));
            }
        }
    }

    static inline std::uint8_t* region_ = nullptr;
    static inline std::uint8_t* far_slot_ = nullptr;
};

TEST_P(DisplaceExecution, SameAsInPlace) {
    const Bytes code = assemble(GetParam());
    write_original(code);
    {
        SCOPED_TRACE("near slot");
        compare(code, region_ + kNearSlot);
    }
    if (far_slot_ != nullptr) {
        SCOPED_TRACE("far slot");
        compare(code, far_slot_);
    }
}

INSTANTIATE_TEST_SUITE_P(Instructions, DisplaceExecution, testing::ValuesIn(displace_cases()));
INSTANTIATE_TEST_SUITE_P(ConditionalJumps, DisplaceExecution,
                         testing::ValuesIn(conditional_jumps()));

} // namespace
} // namespace memleax
