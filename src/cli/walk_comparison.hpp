// SPDX-License-Identifier: GPL-3.0-or-later
/// Two walks of one stack, for people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "console.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/report/folded_name.hpp"

namespace memleax {

struct NamedWalk {
    Backtrace frames;
    StackEnd end = StackEnd::outermost;
};

/// The first frame, counted from the innermost one, in which they differ; the number of frames, if
/// only their ends do. Nothing: they are equal.
std::optional<std::size_t> first_difference(const NamedWalk& one, const NamedWalk& other);

/// Beside each other, a line for each frame and one for the ends, with a star before the first that
/// differs.
std::string walks_side_by_side(const Console& console, const NamedWalk& own,
                               const NamedWalk& libunwind, NameStyle style);

} // namespace memleax
