// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_search.hpp"

#include <algorithm>
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

void search_file(const Module& module, const std::function<bool(std::string_view)>& each) {
    constexpr std::size_t kPiece = 1U << 20;
    constexpr std::size_t kOverlap = 512;
    std::string text;
    for (off_t at = 0;; at += static_cast<off_t>(kPiece - kOverlap)) {
        text.resize(kPiece);
        const ssize_t got = pread(module.image->descriptor(), text.data(), text.size(), at);
        if (got <= 0) {
            return;
        }
        text.resize(static_cast<std::size_t>(got));
        if (each(std::string_view(text)) || text.size() < kPiece) {
            return;
        }
    }
}

} // namespace memleax
