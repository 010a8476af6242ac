// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/page_fault.hpp"

namespace memleax {

const char* describe(TouchedKind kind) {
    switch (kind) {
    case TouchedKind::heap:
        return "heap";
    case TouchedKind::stack:
        return "stack";
    case TouchedKind::anonymous:
        return "anonymous";
    case TouchedKind::file:
        return "file";
    case TouchedKind::unknown:
        break;
    case TouchedKind::own:
        return "memleax";
    case TouchedKind::other_files:
        return "other files";
    }
    return "unknown";
}

} // namespace memleax
