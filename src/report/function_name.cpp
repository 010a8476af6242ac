// SPDX-License-Identifier: GPL-3.0-or-later
#include "function_name.hpp"

#include <array>
#include <cstddef>

#include "operator_name.hpp"

namespace memleax {

namespace {

/// Cuts what may stand behind the parameters.
std::string_view without_qualifiers(std::string_view name) {
    constexpr std::array<std::string_view, 4> kQualifiers{" const", " volatile", " &", " &&"};
    for (bool cut = true; cut;) {
        cut = false;
        for (const std::string_view qualifier : kQualifiers) {
            if (name.ends_with(qualifier)) {
                name.remove_suffix(qualifier.size());
                cut = true;
            }
        }
    }
    return name;
}

/// Cuts the last pair of parentheses, unless they are the name: "operator()".
std::string_view without_parameters(std::string_view name) {
    if (!name.ends_with(')')) {
        return name;
    }
    std::size_t open = name.size();
    for (int depth = 0; open-- > 0;) {
        depth += name[open] == ')' ? 1 : name[open] == '(' ? -1 : 0;
        if (depth == 0) {
            break;
        }
    }
    if (open == std::string_view::npos || open == 0 || name.substr(0, open).ends_with(kOperator)) {
        return name;
    }
    return name.substr(0, open);
}

/// Function templates bring their return type along. Only for what had parameters.
std::string_view without_return_type(std::string_view name) {
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (name.substr(i).starts_with(kOperator)) {
            i = after_operator(name, i);
            if (i < name.size() && name[i] == ' ') { // "operator new", "operator unsigned long"
                break;
            }
            --i;
        } else if (name.substr(i).starts_with("->")) { // Rust: "<fn() -> T as Trait>::f"
            ++i;
        } else if (c == '<' || c == '(' || c == '{' || c == '[') {
            ++depth;
        } else if (c == '>' || c == ')' || c == '}' || c == ']') {
            --depth;
        } else if (c == ' ' && depth == 0 && !name.substr(i + 1).starts_with("const")) {
            begin = i + 1;
        }
    }
    return name.substr(begin);
}

/// What is left ends with the parameters, if it has any.
std::string_view up_to_parameters(std::string_view function) {
    return without_qualifiers(function.substr(0, function.find(" [clone ")));
}

} // namespace

bool has_parameters(std::string_view function) {
    return up_to_parameters(function).ends_with(')');
}

std::string_view bare_name(std::string_view function) {
    const std::string_view all = up_to_parameters(function);
    std::string_view name = without_parameters(all);
    // A name without parameters has no return type either: "JS:^createBuffer node:buffer:7:1".
    if (name.size() != all.size()) {
        name = without_return_type(name);
    }
    return name.empty() ? function : name;
}

} // namespace memleax
