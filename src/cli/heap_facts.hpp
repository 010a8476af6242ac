// SPDX-License-Identifier: GPL-3.0-or-later
/// What the last look at a heap has to say, for people.
#pragma once

#include <cstdint>
#include <string>

#include "memleax/session/session.hpp"

namespace memleax {

/// The last look at the heap of the process that commands are about, or a new one if there was
/// none. Throws CommandError.
HeapView& heap_of(Session& session);
/// "24 bytes of shop::Session at 0x5581..., CallStack[3]".
std::string block_text(Session& session, HeapView& heap, std::uint32_t block);
/// "definitely lost", "still reachable".
const char* class_text(LossClass loss);
/// Class, type, holder and retained size of the block that this address is in; "" if nobody has
/// looked yet, or it is in none.
std::string heap_facts(Session& session, RemoteAddr address);
/// The chain that holds a block, a line for each of its steps.
std::string chain_text(Session& session, HeapView& heap, std::uint32_t block);

} // namespace memleax
