// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_search.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <unistd.h>

#include "memleax/base/name_filter.hpp"

namespace memleax {

bool exports(const Module& module, std::string_view name) {
    bool found = false;
    NameFilter filter;
    filter.add(name);
    if (module.image) {
        module.image->for_each_function(
            SymbolTable::dynamic,
            [&](const ElfSymbol& symbol) { found = found || without_version(symbol.name) == name; },
            &filter);
    }
    return found;
}

std::vector<AddrRange> find_code(const Module& module, SymbolTable table,
                                 std::span<const std::string_view> names) {
    std::vector<AddrRange> code;
    if (!module.image) {
        return code;
    }
    NameFilter filter;
    for (const std::string_view name : names) {
        filter.add(name);
    }
    module.image->for_each_function(
        table,
        [&](const ElfSymbol& symbol) {
            const std::string_view name = without_version(symbol.name);
            if (std::find(names.begin(), names.end(), name.substr(0, name.find('.'))) !=
                names.end()) {
                code.push_back(AddrRange::at(RemoteAddr(symbol.address.value() + module.load_bias),
                                             symbol.size));
            }
        },
        &filter);
    return code;
}

bool may_be_static(const Module* program) {
    return program != nullptr && program->image && program->image->interpreter().empty();
}

namespace {

/// Parts of its file.
std::vector<AddrRange> constants_of(const ElfImage& image) {
    std::vector<AddrRange> parts;
    for (const ElfSegment& segment : image.segments()) {
        if (!segment.executable && !segment.writable && segment.file_size != 0) {
            const std::uint64_t begin = segment.offset.value();
            parts.push_back({begin, begin + segment.file_size});
        }
    }
    constexpr auto kAll = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    return parts.empty() ? std::vector{AddrRange{0, kAll}} : parts;
}

} // namespace

void search_file(const Module& module, const std::function<bool(std::string_view)>& each) {
    constexpr std::uint64_t kPiece = 1U << 20;
    constexpr std::uint64_t kOverlap = 512;
    std::string text;
    for (const AddrRange& part : constants_of(*module.image)) {
        for (std::uint64_t at = part.begin; at < part.end; at += kPiece - kOverlap) {
            text.resize(std::min(kPiece, part.end - at));
            const ssize_t got =
                pread(module.image->descriptor(), text.data(), text.size(), static_cast<off_t>(at));
            if (got <= 0) {
                break;
            }
            text.resize(static_cast<std::size_t>(got));
            if (each(std::string_view(text))) {
                return;
            }
            if (text.size() < kPiece) {
                break;
            }
        }
    }
}

} // namespace memleax
