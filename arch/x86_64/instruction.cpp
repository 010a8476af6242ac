// SPDX-License-Identifier: GPL-3.0-or-later
// Capstone tells an instruction's length and operands; prefixes and the few opcodes that change the
// flow of control are looked at here, byte by byte (Intel SDM volume 2, chapter 2 and appendix A),
// because capstone 4 is wrong about some of them: with an operand size prefix it gives rel32 and
// disp32 two bytes. What it says is believed only where both agree.
#include "instruction.hpp"

#include <algorithm>
#include <cstring>

#include <capstone/capstone.h>

namespace memleax::arch {

namespace {

/// Capstone's handle and its one instruction, for each thread.
class Decoder {
  public:
    Decoder() {
        if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) == CS_ERR_OK) {
            cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
            instruction_ = cs_malloc(handle_);
        }
    }
    ~Decoder() {
        if (instruction_ != nullptr) {
            cs_free(instruction_, 1);
        }
        if (handle_ != 0) {
            cs_close(&handle_);
        }
    }
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    /// Null if that is no instruction. Good until the next call.
    const cs_insn* decode(std::uint64_t address, std::span<const std::uint8_t> bytes) {
        const std::uint8_t* code = bytes.data();
        std::size_t size = bytes.size();
        const bool decoded = instruction_ != nullptr &&
                             cs_disasm_iter(handle_, &code, &size, &address, instruction_);
        return decoded ? instruction_ : nullptr;
    }

  private:
    csh handle_ = 0;
    cs_insn* instruction_ = nullptr;
};

/// What stands before the opcode.
struct Prefixes {
    std::uint8_t length = 0;
    bool operand_size = false;
    bool address_size = false;
    bool rex_w = false;
};

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

/// Fills in the flow of control; a text if the instruction must stay where it is. `at` is an offset
/// from the opcode that is certain to be within the instruction.
class FlowReader {
  public:
    FlowReader(Instruction& instruction, const Prefixes& prefixes, CodeAddr from)
        : instruction_(instruction), prefixes_(prefixes), from_(from) {}

    const char* read() {
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

/// Finds the RIP-relative operand: mod = 00, rm = 101 (SDM volume 2, table 2-7). A text if capstone
/// takes the operands for something else.
const char* find_rip_operand(Instruction& instruction, const cs_x86& x86, CodeAddr from) {
    bool has_rip = false;
    std::int64_t displacement = 0;
    for (unsigned i = 0; i < x86.op_count; ++i) {
        const cs_x86_op& operand = x86.operands[i];
        if (operand.type != X86_OP_MEM) {
            continue;
        }
        if (operand.mem.base == X86_REG_EIP) {
            return "operand relative to eip";
        }
        if (operand.mem.base == X86_REG_RIP) {
            has_rip = true;
            displacement = operand.mem.disp;
        }
    }
    const std::uint8_t modrm_at = x86.encoding.modrm_offset;
    const bool looks_so = modrm_at != 0 && (instruction.bytes[modrm_at] & 0xc7) == 0x05;
    if (!has_rip && !looks_so) {
        return nullptr;
    }
    const std::uint8_t at = modrm_at + 1;
    if (!has_rip || !looks_so || at + 4 > instruction.length) {
        return "unclear encoding";
    }
    std::int32_t value = 0;
    std::memcpy(&value, &instruction.bytes[at], sizeof value);
    if (value != displacement) {
        return "unclear encoding";
    }
    instruction.rip_displacement_at = at;
    instruction.rip_operand = from + instruction.length + value;
    return nullptr;
}

/// rdsspd, rdsspq: read the shadow stack's pointer, or do nothing. Newer than capstone 4.
bool is_read_shadow_stack_pointer(std::span<const std::uint8_t> bytes, const Prefixes& prefixes) {
    const auto opcode = bytes.subspan(prefixes.length);
    return bytes[0] == 0xf3 && prefixes.length <= 2 && opcode.size() >= 3 && opcode[0] == 0x0f &&
           opcode[1] == 0x1e && (opcode[2] & 0xf8) == 0xc8;
}

} // namespace

Result<Instruction> decode_movable(CodeAddr from, std::span<const std::uint8_t> bytes) {
    bytes = bytes.first(std::min(bytes.size(), kMaxInstructionBytes));
    if (bytes.empty()) {
        return Error("no code");
    }
    const Prefixes prefixes = scan_prefixes(bytes);
    Instruction instruction;
    instruction.opcode_at = prefixes.length;

    static thread_local Decoder decoder;
    const cs_insn* decoded = decoder.decode(from.value(), bytes);
    if (decoded == nullptr && is_read_shadow_stack_pointer(bytes, prefixes)) {
        instruction.length = prefixes.length + 3;
        std::memcpy(instruction.bytes.data(), bytes.data(), instruction.length);
        return instruction;
    }
    if (decoded == nullptr) {
        return Error("unknown instruction");
    }
    instruction.length = static_cast<std::uint8_t>(decoded->size);
    std::memcpy(instruction.bytes.data(), bytes.data(), instruction.length);

    const char* reason = FlowReader(instruction, prefixes, from).read();
    if (reason == nullptr) {
        reason = find_rip_operand(instruction, decoded->detail->x86, from);
    }
    if (reason == nullptr && instruction.flow == Flow::indirect_call && prefixes.address_size) {
        reason = "call with a 32-bit address";
    }
    if (reason != nullptr) {
        return Error(reason);
    }
    return instruction;
}

} // namespace memleax::arch
