// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/told_of_looks.hpp"

#include <utility>

#include <fmt/format.h>

#include "memleax/base/log.hpp"

namespace memleax {

void ToldOfLooks::begin_look() {
    before_ = std::exchange(now_, {});
}

void ToldOfLooks::tell(const std::string& line) {
    if (now_.insert(line).second && !before_.contains(line)) {
        log_info("{}", line);
    }
}

std::string not_forked_text(Tid pid, std::string_view why) {
    return fmt::format("process {} stands still while its memory is copied, and is not forked: {}",
                       pid.value(), why);
}

} // namespace memleax
