// SPDX-License-Identifier: GPL-3.0-or-later
// Where the caller is when no unwind table says it: told from the instruction that comes next.
#include <cstring>
#include <initializer_list>

#include "arch.hpp"

namespace memleax::arch {

namespace {

/// The bytes from pc on, and those before it.
class CodeWindow {
  public:
    CodeWindow(std::span<const std::byte> before, std::span<const std::byte> at)
        : before_(before), at_(at) {}

    [[nodiscard]] bool next_is(std::initializer_list<std::uint8_t> bytes,
                               std::size_t skip = 0) const {
        return at_.size() >= skip + bytes.size() &&
               std::memcmp(at_.data() + skip, bytes.begin(), bytes.size()) == 0;
    }
    /// Do these bytes begin `distance` bytes before pc?
    [[nodiscard]] bool before_is(std::initializer_list<std::uint8_t> bytes,
                                 std::size_t distance) const {
        return before_.size() >= distance &&
               std::memcmp(before_.data() + before_.size() - distance, bytes.begin(),
                           bytes.size()) == 0;
    }

  private:
    std::span<const std::byte> before_;
    std::span<const std::byte> at_;
};

/// Entries of a procedure linkage table (System V ABI, AMD64 supplement, section 5.2; linkers emit
/// them with and without endbr64 and the bnd prefix). They push at most a relocation index and the
/// link map's address.
std::optional<std::int32_t> cfa_in_plt(const CodeWindow& code, std::size_t skip) {
    const bool jumps_through_memory = code.next_is({0xff, 0x25}, skip) || // jmp *x(%rip)
                                      code.next_is({0xf2, 0xff, 0x25}, skip);
    if (jumps_through_memory) {
        // PLT0 has pushed two words by then: push x(%rip); jmp *y(%rip)
        return skip == 0 && code.before_is({0xff, 0x35}, 6) ? 24 : 8;
    }
    if (code.next_is({0xff, 0x35}, skip) && // PLT0: push x(%rip); jmp *y(%rip)
        (code.next_is({0xff, 0x25}, skip + 6) || code.next_is({0xf2, 0xff, 0x25}, skip + 6))) {
        return 16;
    }
    if (code.next_is({0x68}, skip) && // a lazy entry: push $n; jmp PLT0
        (code.next_is({0xe9}, skip + 5) || code.next_is({0xf2, 0xe9}, skip + 5))) {
        return 8;
    }
    const bool jumps = code.next_is({0xe9}, skip) || code.next_is({0xf2, 0xe9}, skip);
    if (jumps && skip == 0 && code.before_is({0x68}, 5)) {
        return 16;
    }
    return std::nullopt;
}

} // namespace

std::optional<std::int32_t> cfa_offset_without_tables(std::span<const std::byte> before,
                                                      std::span<const std::byte> at) {
    const CodeWindow code(before, at);
    if (code.next_is({0xc3}) || code.next_is({0xf3, 0xc3}) || code.next_is({0xf2, 0xc3}) ||
        code.next_is({0xc2})) {
        return 8; // ret, rep ret, bnd ret, ret $n
    }
    const std::size_t skip = code.next_is({0xf3, 0x0f, 0x1e, 0xfa}) ? 4 : 0; // endbr64
    if (code.next_is({0x55}, skip)) {
        return 8; // push %rbp
    }
    const bool moves_sp_to_fp =
        code.next_is({0x48, 0x89, 0xe5}) || code.next_is({0x48, 0x8b, 0xec});
    if (moves_sp_to_fp && code.before_is({0x55}, 1)) {
        return 16; // push %rbp was done, and fp is the caller's still
    }
    if (const auto offset = cfa_in_plt(code, skip)) {
        return offset;
    }
    if (skip != 0) {
        return 8; // endbr64 begins a function (or a jump table's case, which is rare)
    }
    return std::nullopt;
}

} // namespace memleax::arch
