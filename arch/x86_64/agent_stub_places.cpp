// SPDX-License-Identifier: GPL-3.0-or-later
// Apart from the other code about jumps: who links this links the agent.
#include "arch.hpp"

extern "C" {
extern const std::uint8_t memleax_agent_stub[];
extern const std::uint8_t memleax_agent_return_place[];
}

namespace memleax::arch {
inline namespace x86_64 {

AgentStub agent_stub() {
    return {memleax_agent_stub, memleax_agent_return_place};
}

} // namespace x86_64
} // namespace memleax::arch
