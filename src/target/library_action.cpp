// SPDX-License-Identifier: GPL-3.0-or-later
#include "library_action.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "arch.hpp"

namespace memleax {

namespace {

using Action = RecoveryRecord::SignalAction;

struct LibraryAction {
    std::uint64_t handler;
    std::array<std::uint64_t, 16> mask; ///< sigset_t; the kernel's is the first word
    std::int32_t flags;
    std::uint32_t padding;
    std::uint64_t restorer; ///< the library's own business
};
static_assert(offsetof(LibraryAction, flags) == 136 && sizeof(LibraryAction) == 152);

constexpr std::uint64_t kRestorerFlag = 0x04000000; // SA_RESTORER (asm/signal.h)

/// Around the function: in glibc and musl it is next to it.
std::optional<CodeAddr> find_restorer(RemoteMemory& memory, CodeAddr entry) {
    constexpr std::size_t kNear = 2048;
    const CodeAddr begin = entry - std::int64_t{kNear};
    std::vector<std::byte> bytes(2 * kNear);
    bytes.resize(memory.try_read(begin.as_data(), bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (arch::is_signal_return_code(std::span(bytes).subspan(i))) {
            return begin + static_cast<std::int64_t>(i);
        }
    }
    return std::nullopt;
}

} // namespace

std::optional<Action> read_library_action(RemoteMemory& memory, RemoteAddr at, CodeAddr entry) {
    const auto wanted = memory.try_read_object<LibraryAction>(at);
    if (!wanted) {
        return std::nullopt;
    }
    Action action{wanted->handler, static_cast<std::uint32_t>(wanted->flags), 0, wanted->mask[0]};
    if (arch::kHandlersNeedRestorer && action.has_handler()) {
        const auto restorer = find_restorer(memory, entry);
        if (!restorer) {
            return std::nullopt;
        }
        action.flags |= kRestorerFlag;
        action.restorer = restorer->value();
    }
    return action;
}

bool write_library_action(RemoteMemory& memory, RemoteAddr at, const Action& action) {
    return memory.write_object(at + std::int64_t{offsetof(LibraryAction, handler)},
                               action.handler) &&
           memory.write_object(at + std::int64_t{offsetof(LibraryAction, mask)}, action.mask) &&
           memory.write_object(at + std::int64_t{offsetof(LibraryAction, flags)},
                               static_cast<std::int32_t>(action.flags));
}

} // namespace memleax
