// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/code_patch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

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

CodePatch CodePatch::jump(CodeAddr address, std::span<const std::uint8_t> code,
                          std::span<const std::uint8_t> jump) {
    CodePatch patch;
    patch.address = address;
    patch.size = static_cast<std::uint8_t>(jump.size());
    std::copy_n(code.begin(), jump.size(), patch.original.begin());
    std::copy(jump.begin(), jump.end(), patch.patched.begin());
    return patch;
}

bool CodePatch::is_in(const RemoteMemory& memory) const {
    std::array<std::uint8_t, kMaxBytes> now{};
    const auto there = std::span(now).first(size);
    if (empty() ||
        memory.try_read_forced(address.as_data(), std::as_writable_bytes(there)) != size) {
        return false;
    }
    if (!is_jump()) {
        return std::equal(there.begin(), there.end(), patched.begin());
    }
    // Somebody may be in the midst of putting it in or out, or have died there.
    if (std::equal(there.begin(), there.end(), original.begin())) {
        return false;
    }
    constexpr std::size_t kFirst = arch::kBreakpointBytes.size();
    for (std::size_t i = kFirst; i < size; ++i) {
        if (there[i] != patched[i] && there[i] != original[i]) {
            return false;
        }
    }
    // The original one, with ours behind it, is what a uprobe of the kernel's leaves that came and
    // went meanwhile.
    const auto first = there.first(kFirst);
    return std::equal(first.begin(), first.end(), patched.begin()) ||
           std::equal(first.begin(), first.end(), original.begin()) ||
           std::equal(first.begin(), first.end(), arch::kBreakpointBytes.begin());
}

bool CodePatch::begins_in(const RemoteMemory& memory) const {
    std::array<std::uint8_t, arch::kBreakpointBytes.size()> first{};
    return memory.try_read_forced(address.as_data(), std::as_writable_bytes(std::span(first))) ==
               first.size() &&
           std::equal(first.begin(), first.end(), patched.begin());
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

namespace {

std::span<const std::uint8_t> behind_first(std::span<const std::uint8_t> bytes) {
    return bytes.subspan(arch::kBreakpointBytes.size());
}

Result<void> write_behind_first(const CodePatch& jump, std::span<const std::uint8_t> bytes,
                                RemoteMemory& memory) {
    constexpr auto kFirst = static_cast<std::int64_t>(arch::kBreakpointBytes.size());
    return memory.write(jump.address.as_data() + kFirst, behind_first(bytes));
}

/// Those of ours that are there: `write` is called for each. The first error, if there was any.
template <typename Write>
Result<void> for_all_in(std::span<const CodePatch> jumps, const RemoteMemory& memory,
                        const Write& write) {
    Result<void> result;
    for (const CodePatch& jump : jumps) {
        if (!jump.is_jump() || !jump.is_in(memory)) {
            continue;
        }
        if (auto written = write(jump); !written && result) {
            result = std::move(written);
        }
    }
    return result;
}

} // namespace

Result<void> write_behind_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory) {
    Result<void> done;
    for (const CodePatch& jump : jumps) {
        done = done ? write_behind_first(jump, jump.patched_bytes(), memory) : std::move(done);
    }
    return done;
}

Result<void> write_over_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory) {
    Result<void> done;
    for (const CodePatch& jump : jumps) {
        done = done ? memory.write(jump.address.as_data(),
                                   jump.patched_bytes().first(arch::kBreakpointBytes.size()))
                    : std::move(done);
    }
    return done;
}

Result<void> put_breakpoints_on_jumps(std::span<const CodePatch> jumps, RemoteMemory& memory) {
    return for_all_in(jumps, memory, [&memory](const CodePatch& jump) {
        return memory.write(jump.address.as_data(), arch::kBreakpointBytes);
    });
}

Result<void> restore_behind_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory) {
    return for_all_in(jumps, memory, [&memory](const CodePatch& jump) {
        return write_behind_first(jump, jump.original_bytes(), memory);
    });
}

Result<void> make_breakpoints_of_jumps(std::span<const CodePatch> jumps, RemoteMemory& memory) {
    if (std::none_of(jumps.begin(), jumps.end(), [&memory](const CodePatch& jump) {
            return jump.is_jump() && jump.is_in(memory);
        })) {
        return {};
    }
    Result<void> result;
    const auto keep_error = [&result](Result<void> done) {
        if (!done && result) {
            result = std::move(done);
        }
    };
    keep_error(put_breakpoints_on_jumps(jumps, memory));
    keep_error(synchronize_code());
    keep_error(restore_behind_breakpoints(jumps, memory));
    keep_error(synchronize_code());
    return result;
}

} // namespace memleax
