// SPDX-License-Identifier: GPL-3.0-or-later
/// The small value types that every layer speaks in. An address of the target is never a pointer of
/// ours and never a bare integer in an interface; two kinds of address do not compare.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <utility>

namespace memleax {

/// An integer with a meaning: explicit to make, comparable with its own kind only.
template <class Tag, class Rep> class Strong {
  public:
    using rep = Rep;
    constexpr Strong() = default;
    constexpr explicit Strong(Rep value) : value_(value) {}
    [[nodiscard]] constexpr Rep value() const { return value_; }
    // clang-tidy 14 takes the default's comparison with 0 for a pointer's.
    friend constexpr auto operator<=>(Strong, Strong) = default; // NOLINT(modernize-use-nullptr)
    template <class H> friend H AbslHashValue(H h, Strong s) {
        return H::combine(std::move(h), s.value_);
    }

  private:
    Rep value_{};
};

/// A kernel thread id in our own pid namespace. A process id is the Tid of its leader.
using Tid = Strong<struct TidTag, std::int32_t>;
/// Index of an interned call stack. Dense, from 0, never reused within a session.
using StackId = Strong<struct StackIdTag, std::uint32_t>;
/// Index of a live block's record. Reused after the block is gone.
using BlockId = Strong<struct BlockIdTag, std::uint32_t>;
/// Byte offset in a file.
using FileOffset = Strong<struct FileOffsetTag, std::uint64_t>;
/// An address as an ELF file's program headers give it (p_vaddr); runtime address = this + load
/// bias.
using ElfAddr = Strong<struct ElfAddrTag, std::uint64_t>;
/// Nanoseconds of CLOCK_MONOTONIC.
using MonotonicNs = Strong<struct MonotonicNsTag, std::int64_t>;

/// The StackId of an event that has no stack.
inline constexpr StackId kNoStack{0xffffffff};

/// A data address in the target's address space.
class RemoteAddr : public Strong<struct RemoteAddrTag, std::uint64_t> {
  public:
    using Strong::Strong;
    friend constexpr RemoteAddr operator+(RemoteAddr a, std::int64_t n) {
        return RemoteAddr(a.value() + static_cast<std::uint64_t>(n));
    }
    friend constexpr RemoteAddr operator-(RemoteAddr a, std::int64_t n) { return a + -n; }
    friend constexpr std::int64_t operator-(RemoteAddr a, RemoteAddr b) {
        return static_cast<std::int64_t>(a.value() - b.value());
    }
};

/// The address of an instruction in the target.
class CodeAddr : public Strong<struct CodeAddrTag, std::uint64_t> {
  public:
    using Strong::Strong;
    /// The same place, looked at as bytes to read or write.
    [[nodiscard]] constexpr RemoteAddr as_data() const { return RemoteAddr(value()); }
    friend constexpr CodeAddr operator+(CodeAddr a, std::int64_t n) {
        return CodeAddr(a.value() + static_cast<std::uint64_t>(n));
    }
    friend constexpr CodeAddr operator-(CodeAddr a, std::int64_t n) { return a + -n; }
    friend constexpr std::int64_t operator-(CodeAddr a, CodeAddr b) {
        return static_cast<std::int64_t>(a.value() - b.value());
    }
};

/// A half-open range of target addresses, of code or data: mappings have both. Its bounds are
/// numbers as /proc and mmap(2) give them; who is asked for, and what is read there, are typed
/// addresses.
struct AddrRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    /// `size` bytes from there on.
    [[nodiscard]] static constexpr AddrRange at(RemoteAddr begin, std::uint64_t size) {
        return {begin.value(), begin.value() + size};
    }
    [[nodiscard]] static constexpr AddrRange at(CodeAddr begin, std::uint64_t size) {
        return at(begin.as_data(), size);
    }
    /// Where to read or write its first byte.
    [[nodiscard]] constexpr RemoteAddr start() const { return RemoteAddr(begin); }
    [[nodiscard]] constexpr std::uint64_t size() const { return end - begin; }
    /// Also if it is no range, as what is left of one may be.
    [[nodiscard]] constexpr bool empty() const { return begin >= end; }
    [[nodiscard]] constexpr bool contains(RemoteAddr a) const { return contains(a.value()); }
    [[nodiscard]] constexpr bool contains(CodeAddr a) const { return contains(a.value()); }
    /// Of a word that may be an address of either kind, or none.
    [[nodiscard]] constexpr bool contains(std::uint64_t a) const { return a >= begin && a < end; }
    /// Neither may be empty.
    [[nodiscard]] constexpr bool overlaps(const AddrRange& other) const {
        return begin < other.end && other.begin < end;
    }
    /// What both have in common; may be empty.
    [[nodiscard]] constexpr AddrRange common_with(const AddrRange& other) const {
        return {begin > other.begin ? begin : other.begin, end < other.end ? end : other.end};
    }
    /// The smallest range that has both in it.
    [[nodiscard]] constexpr AddrRange joined_with(const AddrRange& other) const {
        return {begin < other.begin ? begin : other.begin, end > other.end ? end : other.end};
    }
    friend constexpr bool operator==(const AddrRange&, const AddrRange&) = default;
};

/// One frame's program counter. In an outer frame it is a return address, which belongs to the call
/// *before* it (a noreturn call may be the last instruction of its function, so the return address
/// can lie in the next one); in the innermost frame, and in one that a signal interrupted, it is
/// the pc itself. This type owns that "minus one"; nobody else subtracts.
class FrameAddress {
  public:
    constexpr FrameAddress() = default;
    static constexpr FrameAddress exact(CodeAddr pc) { return FrameAddress(pc.value() & kPcMask); }
    static constexpr FrameAddress return_address(CodeAddr pc) {
        return FrameAddress((pc.value() & kPcMask) | kReturnBit);
    }
    /// The address as it stood in the register or on the stack.
    [[nodiscard]] constexpr CodeAddr pc() const { return CodeAddr(bits_ & kPcMask); }
    /// The address to look symbols, lines and unwind rules up with.
    [[nodiscard]] constexpr CodeAddr lookup_pc() const {
        return CodeAddr((bits_ & kPcMask) - (is_return_address() ? 1 : 0));
    }
    [[nodiscard]] constexpr bool is_return_address() const { return (bits_ & kReturnBit) != 0; }
    friend constexpr auto operator<=>(FrameAddress, FrameAddress) = default; // NOLINT
    template <class H> friend H AbslHashValue(H h, FrameAddress f) {
        return H::combine(std::move(h), f.bits_);
    }

  private:
    constexpr explicit FrameAddress(std::uint64_t bits) : bits_(bits) {}
    // User addresses have at most 57 bits (x86_64 with LA57; arm64 at most 52), so the top bit is
    // free.
    static constexpr std::uint64_t kReturnBit = 1ULL << 63;
    static constexpr std::uint64_t kPcMask = ~kReturnBit;
    std::uint64_t bits_ = 0;
};

} // namespace memleax

template <class Tag, class Rep> struct std::hash<memleax::Strong<Tag, Rep>> {
    std::size_t operator()(memleax::Strong<Tag, Rep> s) const noexcept {
        return std::hash<Rep>{}(s.value());
    }
};
