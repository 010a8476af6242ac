// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/verdict.hpp"

namespace memleax {

const char* describe(Verdict verdict) {
    switch (verdict) {
    case Verdict::too_early:
        return "too early";
    case Verdict::settled:
        return "settled";
    case Verdict::plateau:
        return "plateau";
    case Verdict::growing:
        return "growing";
    case Verdict::leaking:
        return "leaking";
    }
    return "?";
}

} // namespace memleax
