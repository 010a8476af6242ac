// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/resident_memory.hpp"

namespace memleax {

ResidentMemory operator+(const ResidentMemory& a, const ResidentMemory& b) {
    return {.rss = a.rss + b.rss,
            .anonymous = a.anonymous + b.anonymous,
            .huge = a.huge + b.huge,
            .lazy_free = a.lazy_free + b.lazy_free,
            .swap = a.swap + b.swap,
            .own = a.own + b.own};
}

} // namespace memleax
