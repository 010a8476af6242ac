// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine.hpp"
#include "inline/inline_engine.hpp"
#include "int3/int3_engine.hpp"
#include "memleax/base/log.hpp"

namespace memleax {

EngineChoice possible_engine(EngineChoice choice) {
    const char* reason = choice == EngineChoice::int3 ? nullptr : InlineEngine::reason_against();
    if (reason != nullptr && choice == EngineChoice::inlined) {
        log_info("engine int3: {}", reason);
    }
    return choice == EngineChoice::int3 || reason != nullptr ? EngineChoice::int3
                                                             : EngineChoice::inlined;
}

std::unique_ptr<Engine> make_engine(const EngineContext& context, EngineHost& host,
                                    EngineChoice choice) {
    if (choice == EngineChoice::inlined) {
        return std::make_unique<InlineEngine>(context, host);
    }
    return std::make_unique<Int3Engine>(context, host);
}

} // namespace memleax
