// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch.hpp"

extern "C" {
extern const std::uint8_t memleax_trap_handler[];
extern const std::uint8_t memleax_trap_handler_restorer[];
extern const std::uint8_t memleax_trap_handler_unblocked_restorer[];
extern const std::uint8_t memleax_trap_handler_parking[];
extern const std::uint8_t memleax_trap_handler_way_back[];
extern const std::uint8_t memleax_trap_handler_calls[];
extern const std::uint8_t memleax_trap_handler_calls_end[];
extern const std::uint8_t memleax_trap_handler_data[];
}

namespace memleax::arch {
inline namespace x86_64 {

TrapHandlerCode trap_handler_code() {
    const auto offset = [](const std::uint8_t* label) {
        return static_cast<std::size_t>(label - memleax_trap_handler);
    };
    TrapHandlerCode result;
    result.entry = 0;
    result.restorer = offset(memleax_trap_handler_restorer);
    result.unblocked_restorer = offset(memleax_trap_handler_unblocked_restorer);
    result.parking = offset(memleax_trap_handler_parking);
    result.way_back = offset(memleax_trap_handler_way_back);
    result.calls = offset(memleax_trap_handler_calls);
    result.calls_end = offset(memleax_trap_handler_calls_end);
    result.data = offset(memleax_trap_handler_data);
    result.code = {memleax_trap_handler, result.data};
    return result;
}

} // namespace x86_64
} // namespace memleax::arch
