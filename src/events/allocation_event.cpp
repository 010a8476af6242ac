// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/allocation_event.hpp"

namespace memleax {

const char* describe(StackEnd end) {
    switch (end) {
    case StackEnd::outermost:
        return "outermost frame";
    case StackEnd::limit:
        return "backtrace limit";
    case StackEnd::no_rule:
        return "no unwind information";
    case StackEnd::bad_memory:
        return "stack memory not readable";
    case StackEnd::not_code:
        return "return address is not in code";
    case StackEnd::not_increasing:
        return "stack is broken";
    case StackEnd::bad_rule:
        return "unwind information is not valid";
    case StackEnd::vector_length:
        return "frame with scalable vectors";
    case StackEnd::unknown_code:
        return "generated code";
    case StackEnd::copy_end:
        return "end of the copied stack";
    }
    return "unknown reason";
}

const char* describe(Unseen why) {
    return why == Unseen::generated_code ? "called by generated code"
                                         : "no breakpoint can be where they return to";
}

} // namespace memleax
