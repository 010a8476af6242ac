// SPDX-License-Identifier: GPL-3.0-or-later
/// Capstone's handle and its one instruction, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <capstone/capstone.h>

namespace memleax::arch {
inline namespace x86_64 {

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

    /// The first instruction of `bytes`, which stands at `address`; null if there is none. Good
    /// until the next call.
    const cs_insn* decode(std::uint64_t address, std::span<const std::byte> bytes) {
        const auto* code = reinterpret_cast<const std::uint8_t*>(bytes.data());
        std::size_t size = bytes.size();
        const bool decoded = instruction_ != nullptr &&
                             cs_disasm_iter(handle_, &code, &size, &address, instruction_);
        return decoded ? instruction_ : nullptr;
    }
    [[nodiscard]] bool is_jump(const cs_insn& instruction) const {
        return cs_insn_group(handle_, &instruction, CS_GRP_JUMP);
    }

  private:
    csh handle_ = 0;
    cs_insn* instruction_ = nullptr;
};

} // namespace x86_64
} // namespace memleax::arch
