// SPDX-License-Identifier: GPL-3.0-or-later
#include "object_types.hpp"

#include <algorithm>
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

// Vtables are read-only data of a file, or were so until the dynamic linker had relocated them.
// With them lies code where the linker does not separate the two, as arm64's does not.
const Mapping* ObjectTypes::data_at(std::uint64_t address) {
    if (last_ != nullptr && last_->range.contains(address)) {
        return last_;
    }
    const auto after = std::upper_bound(
        mappings_.begin(), mappings_.end(), address,
        [](std::uint64_t at, const Mapping& mapping) { return at < mapping.range.begin; });
    if (after == mappings_.begin()) {
        return nullptr;
    }
    const Mapping& mapping = *std::prev(after);
    if (!mapping.range.contains(address) || mapping.inode == 0 || mapping.shared ||
        !mapping.readable) {
        return nullptr;
    }
    last_ = &mapping;
    return last_;
}

bool ObjectTypes::may_be_vtable(std::uint64_t word) {
    return word % sizeof word == 0 && data_at(word) != nullptr;
}

std::string ObjectTypes::type(std::uint64_t vtable) {
    // Before the first function: the offset to the object's begin, and its type_info.
    std::array<std::uint64_t, 2> before{};
    const RemoteAddr at(vtable - sizeof before);
    if (!may_be_vtable(vtable) || data_at(at.value()) == nullptr ||
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
    if (data_at(before[1]) == nullptr ||
        memory_.try_read(RemoteAddr(before[1]), std::as_writable_bytes(std::span(info))) !=
            sizeof info ||
        data_at(info[0]) == nullptr || data_at(info[1]) == nullptr) {
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
