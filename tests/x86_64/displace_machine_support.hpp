// SPDX-License-Identifier: GPL-3.0-or-later
/// A CPU to run single instructions on: our own, with every register set before and kept after.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch.hpp"

namespace memleax::test {

/// The order is that of the instruction encoding. The assembly in the .cpp knows these offsets.
struct CpuState {
    enum Register { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };
    std::array<std::uint64_t, 16> registers{};
    std::uint64_t flags = 0;
    std::uint64_t exit = 0; ///< the number of the exit that was reached
    std::array<std::uint64_t, 2> xmm0{};
    bool operator==(const CpuState&) const = default;
};

/// Memory that is readable, writable and executable, at an address of choice.
class Region {
  public:
    /// Nothing if that range is taken.
    static std::optional<Region> map_at(std::uint64_t address, std::size_t size);
    Region(Region&& other) noexcept;
    Region& operator=(Region&&) = delete;
    ~Region();
    [[nodiscard]] std::uint64_t begin() const { return reinterpret_cast<std::uint64_t>(base_); }
    [[nodiscard]] std::span<std::uint8_t> bytes() const { return {base_, size_}; }

  private:
    Region(std::uint8_t* base, std::size_t size) : base_(base), size_(size) {}
    std::uint8_t* base_;
    std::size_t size_;
};

/// Where an instruction stands, and all that it can reach. From the region's begin:
///
///     0x0100  the instruction; exit 0 right behind it
///     0x0140  exit 1, within reach of a rel8
///     0x0800  exits 0 to 15, each 32 bytes, for pointers
///     0x1000  data: words that point to exits 0 .. 15, 0 .. 15, ...
///     0x2000  stack: the same; rsp is set to 0x2800
class Machine {
  public:
    explicit Machine(Region region);
    /// Puts the instruction there, and all memory into its first state.
    void load(std::span<const std::uint8_t> instruction);
    /// Enters the code with these registers until an exit is reached.
    CpuState run(CodeAddr entry, const CpuState& state);
    /// Everything that an instruction can have written.
    [[nodiscard]] std::vector<std::uint8_t> memory() const;

    [[nodiscard]] CodeAddr from() const { return CodeAddr(region_.begin() + kFrom); }
    [[nodiscard]] std::uint64_t exit(unsigned n) const {
        return region_.begin() + kExits + n * std::uint64_t{kExitBytes};
    }
    [[nodiscard]] std::uint64_t data() const { return region_.begin() + kData; }
    [[nodiscard]] std::uint64_t stack() const { return region_.begin() + kStack + 0x800; }

    static constexpr std::size_t kSize = 0x3000;

  private:
    static constexpr std::size_t kFrom = 0x100;
    static constexpr std::size_t kNearExit = 0x140;
    static constexpr std::size_t kExits = 0x800;
    static constexpr std::size_t kExitBytes = 32;
    static constexpr std::size_t kData = 0x1000;
    static constexpr std::size_t kStack = 0x2000;
    void write_exit(std::size_t at, std::uint8_t number);

    Region region_;
};

/// While this lives, a thread that reaches the point of the slot is sent back to the original code,
/// as it is when it leaves the slot early.
class LeaveAtPoint {
  public:
    LeaveAtPoint(std::span<std::uint8_t> slot, const arch::SlotPoint& point);
    LeaveAtPoint(const LeaveAtPoint&) = delete;
    LeaveAtPoint& operator=(const LeaveAtPoint&) = delete;
    ~LeaveAtPoint();
    [[nodiscard]] bool was_reached() const;

  private:
    std::uint8_t& place_;
    std::uint8_t saved_;
};

} // namespace memleax::test
