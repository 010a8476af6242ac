// SPDX-License-Identifier: GPL-3.0-or-later
#include "function_part.hpp"

namespace memleax {

namespace {

/// Takes `suffix` off the end, with or without a number of its own behind it.
bool take_suffix(std::string_view* name, std::string_view suffix, bool needs_number) {
    std::string_view rest = *name;
    const std::size_t digits = rest.find_last_not_of("0123456789");
    const bool numbered =
        digits != std::string_view::npos && digits + 1 < rest.size() && rest[digits] == '.';
    if (numbered) {
        rest = rest.substr(0, digits);
    }
    if ((needs_number && !numbered) || !rest.ends_with(suffix) || rest.size() == suffix.size()) {
        return false;
    }
    *name = rest.substr(0, rest.size() - suffix.size());
    return true;
}

} // namespace

FunctionPart part_of(std::string_view symbol) {
    FunctionPart part{symbol};
    while (true) {
        if (take_suffix(&part.function, ".cold", false)) {
            part.is_elsewhere = true;
        } else if (!take_suffix(&part.function, ".lto_priv", true) &&
                   !take_suffix(&part.function, ".llvm", true)) {
            return part;
        }
    }
}

} // namespace memleax
