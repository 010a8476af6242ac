// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine.hpp"
#include "inline/inline_engine.hpp"
#include "int3/int3_engine.hpp"

namespace memleax {

std::unique_ptr<Engine> make_engine(const EngineContext& context, EngineHost& host,
                                    EngineChoice choice) {
    if (choice == EngineChoice::int3) {
        return std::make_unique<Int3Engine>(context, host);
    }
    return std::make_unique<InlineEngine>(context, host);
}

} // namespace memleax
