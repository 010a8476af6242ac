// SPDX-License-Identifier: GPL-3.0-or-later
#include "object_types.hpp"

#include <array>
#include <cstddef>
#include <string_view>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostName = 512;

std::string without_prefix(const std::string& text, std::string_view prefix) {
    return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
}

} // namespace

std::string ObjectTypes::type(std::uint64_t vtable) {
    // Before the first function: the offset to the object's begin, and its type_info.
    std::array<std::uint64_t, 2> before{};
    const RemoteAddr at(vtable - sizeof before);
    if (vtable % sizeof vtable != 0 || !file_data_.contains(vtable) ||
        !file_data_.contains(at.value()) ||
        memory_.try_read(at, std::as_writable_bytes(std::span(before))) != sizeof before ||
        before[0] != 0) {
        return "";
    }
    if (before[1] == 0) { // -fno-rtti
        const auto symbol = names_.find_variable(at);
        return symbol && symbol->start == at ? without_prefix(symbol->name, "vtable for ") : "";
    }
    // A vtable of its own, and its name.
    std::array<std::uint64_t, 2> info{};
    if (!file_data_.contains(before[1]) ||
        memory_.try_read(RemoteAddr(before[1]), std::as_writable_bytes(std::span(info))) !=
            sizeof info ||
        !file_data_.contains(info[0]) || !file_data_.contains(info[1])) {
        return "";
    }
    std::array<char, kMostName> name{};
    const std::size_t got =
        memory_.try_read(RemoteAddr(info[1]), std::as_writable_bytes(std::span(name)));
    const std::string_view text(name.data(), got);
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos || end == 0) {
        return "";
    }
    const std::size_t begin = text.front() == '*' ? 1 : 0; // local to its module
    const std::string symbol = "_ZTS" + std::string(text.substr(begin, end - begin));
    return without_prefix(demangle(symbol), "typeinfo name for ");
}

} // namespace memleax
