// SPDX-License-Identifier: GPL-3.0-or-later
#include "stat_fields.hpp"

#include <sstream>

namespace memleax {

std::vector<std::string> stat_fields(std::string_view stat) {
    const std::size_t close = stat.rfind(')');
    if (close == std::string_view::npos) {
        return {};
    }
    std::istringstream rest{std::string(stat.substr(close + 1))};
    std::vector<std::string> fields;
    for (std::string field; rest >> field;) {
        fields.push_back(field);
    }
    return fields;
}

} // namespace memleax
