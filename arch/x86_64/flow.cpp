// SPDX-License-Identifier: GPL-3.0-or-later
// Intel SDM volume 2, chapter 2 (prefixes) and appendix A (opcode maps).
#include "flow.hpp"

#include <cstring>

namespace memleax::arch {
inline namespace x86_64 {

namespace {

class FlowReader {
  public:
    FlowReader(Instruction& instruction, const Prefixes& prefixes, CodeAddr from)
        : instruction_(instruction), prefixes_(prefixes), from_(from) {}

    const char* read() {
        // Behind a REX: the CPU ignores that REX then, and what follows is not looked at here.
        if (scan_prefixes(instruction_.code().subspan(instruction_.opcode_at)).length != 0) {
            return "unclear encoding";
        }
        const std::uint8_t opcode = at(0);
        switch (opcode) {
        case 0x0f:
            return read_two_byte();
        case 0xc7:
            return at(1) == 0xf8 ? "xbegin" : nullptr;
        case 0xc2: // ret imm16
        case 0xc3: // ret
            instruction_.flow = Flow::elsewhere;
            return nullptr;
        case 0xca:
        case 0xcb:
        case 0xcf:
            return "far return";
        case 0xcc:
        case 0xcd:
        case 0xf1:
            return "software interrupt";
        case 0xe0: // loopne
        case 0xe1: // loope
        case 0xe2: // loop
        case 0xe3: // jrcxz, jecxz
            return relative(Flow::branch, 1, 1);
        case 0xe8:
            return relative(Flow::call, 1, 4);
        case 0xe9:
            return relative(Flow::jump, 1, 4);
        case 0xeb:
            return relative(Flow::jump, 1, 1);
        case 0xff:
            return read_group5();
        default:
            return opcode >= 0x70 && opcode <= 0x7f ? relative(Flow::branch, 1, 1) : nullptr;
        }
    }

  private:
    [[nodiscard]] std::uint8_t at(std::size_t offset) const {
        const std::size_t i = instruction_.opcode_at + offset;
        return i < instruction_.length ? instruction_.bytes[i] : 0;
    }

    const char* read_two_byte() {
        const std::uint8_t opcode = at(1);
        switch (opcode) {
        case 0x05: // syscall: its return address stays in rcx, and it may be restarted
        case 0x07: // sysret
        case 0x34: // sysenter
        case 0x35: // sysexit
            return "system call instruction";
        case 0x0b: // ud2: SIGILL tells its address
        case 0xb9: // ud1
        case 0xff: // ud0
            return "undefined instruction";
        default:
            return (opcode & 0xf0) == 0x80 ? relative(Flow::branch, 2, 4) : nullptr;
        }
    }

    const char* read_group5() {
        const unsigned which = (at(1) >> 3U) & 7U;
        if (which == 3 || which == 5) {
            return "far call or jump";
        }
        if (which != 2 && which != 4) {
            return nullptr; // inc, dec, push
        }
        if (prefixes_.operand_size && !prefixes_.rex_w) {
            return "16-bit branch";
        }
        instruction_.flow = which == 2 ? Flow::indirect_call : Flow::elsewhere;
        return nullptr;
    }

    /// A branch to the next instruction + the last `size` bytes of it, which begin `offset` behind
    /// the opcode.
    const char* relative(Flow flow, unsigned offset, unsigned size) {
        // AMD cuts the target to 16 bits, Intel does not (SDM volume 2, Jcc). With REX.W both
        // ignore the prefix, which is how linkers pad `data16 data16 rex.W call __tls_get_addr`.
        if (prefixes_.operand_size && !prefixes_.rex_w) {
            return "16-bit branch";
        }
        if (instruction_.opcode_at + offset + size != instruction_.length) {
            return "unclear encoding";
        }
        std::int32_t distance = 0;
        if (size == 1) {
            // Sign-extended, as the CPU does. NOLINTNEXTLINE(bugprone-signed-char-misuse)
            distance = static_cast<std::int8_t>(at(offset));
        } else {
            std::memcpy(&distance, &instruction_.bytes[instruction_.opcode_at + offset], 4);
        }
        instruction_.flow = flow;
        instruction_.target = from_ + instruction_.length + distance;
        return nullptr;
    }

    Instruction& instruction_;
    const Prefixes& prefixes_;
    CodeAddr from_;
};

} // namespace

Prefixes scan_prefixes(std::span<const std::uint8_t> bytes) {
    Prefixes prefixes;
    for (const std::uint8_t byte : bytes) {
        switch (byte) {
        case 0x66:
            prefixes.operand_size = true;
            break;
        case 0x67:
            prefixes.address_size = true;
            break;
        case 0x26: // es
        case 0x2e: // cs, or "not taken"
        case 0x36: // ss
        case 0x3e: // ds, "taken", or notrack
        case 0x64: // fs
        case 0x65: // gs
        case 0xf0: // lock
        case 0xf2: // repne, bnd, xacquire
        case 0xf3: // rep, xrelease
            break;
        default:
            if ((byte & 0xf0) == 0x40) { // REX: the last prefix
                prefixes.rex_w = (byte & 0x08) != 0;
                ++prefixes.length;
            }
            return prefixes;
        }
        ++prefixes.length;
    }
    return prefixes;
}

const char* read_flow(Instruction& instruction, const Prefixes& prefixes, CodeAddr from) {
    return FlowReader(instruction, prefixes, from).read();
}

} // namespace x86_64
} // namespace memleax::arch
