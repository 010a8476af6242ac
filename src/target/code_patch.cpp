// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/code_patch.hpp"

#include <algorithm>

namespace memleax {

static_assert(arch::kBreakpointBytes.size() <= CodePatch::kMaxBytes);

CodePatch CodePatch::breakpoint(CodeAddr address, std::span<const std::uint8_t> code) {
    CodePatch patch;
    patch.address = address;
    patch.size = arch::kBreakpointBytes.size();
    std::copy_n(code.begin(), patch.size, patch.original.begin());
    std::copy_n(arch::kBreakpointBytes.begin(), patch.size, patch.patched.begin());
    return patch;
}

bool CodePatch::is_in(const RemoteMemory& memory) const {
    std::array<std::uint8_t, kMaxBytes> now{};
    const auto there = std::span(now).first(size);
    return !empty() &&
           memory.try_read_unmasked(address.as_data(), std::as_writable_bytes(there)) == size &&
           std::equal(there.begin(), there.end(), patched.begin());
}

Result<void> CodePatch::put_in(RemoteMemory& memory) const {
    return memory.write(address.as_data(), patched_bytes());
}

Result<bool> CodePatch::take_out(RemoteMemory& memory) const {
    if (!is_in(memory)) {
        return false;
    }
    auto written = memory.write(address.as_data(), original_bytes());
    if (!written) {
        return std::move(written).error();
    }
    return true;
}

} // namespace memleax
