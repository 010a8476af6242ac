// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine.hpp"
#include "inline/inline_engine.hpp"
#include "int3/int3_engine.hpp"
#include "memleax/base/log.hpp"

namespace memleax {

std::unique_ptr<Engine> make_engine(const EngineContext& context, EngineHost& host,
                                    EngineChoice choice) {
    if (choice != EngineChoice::int3) {
        const char* reason = InlineEngine::reason_against();
        if (reason == nullptr) {
            return std::make_unique<InlineEngine>(context, host);
        }
        if (choice == EngineChoice::inlined) {
            log_info("engine int3: {}", reason);
        }
    }
    return std::make_unique<Int3Engine>(context, host);
}

} // namespace memleax
