// SPDX-License-Identifier: GPL-3.0-or-later
#include "clock_text.hpp"

#include <ctime>

#include <fmt/format.h>

namespace memleax {

std::string clock_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

} // namespace memleax
