// SPDX-License-Identifier: GPL-3.0-or-later
#include "recorded_handler.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "arch.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

HandlersPlace look_for_handler(Tid pid, const RecoveryRecord& record) {
    const std::span<const std::uint8_t> code = arch::trap_handler_code().code;
    auto memory = RemoteMemory::open(pid);
    std::vector<std::uint8_t> there(code.size());
    if (!memory ||
        memory->try_read_unmasked(RemoteAddr(record.handler.begin),
                                  std::as_writable_bytes(std::span(there))) != there.size()) {
        return HandlersPlace::something_else;
    }
    if (std::equal(code.begin(), code.end(), there.begin())) {
        return HandlersPlace::handler;
    }
    const bool empty = std::all_of(there.begin(), there.end(), [](auto byte) { return byte == 0; });
    return empty ? HandlersPlace::nothing_yet : HandlersPlace::something_else;
}

void forget_handler(RecoveryRecord& record) {
    record.set_handler({});
    record.handler_in_force.store(0);
}

} // namespace memleax
