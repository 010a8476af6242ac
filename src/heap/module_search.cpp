// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_search.hpp"

#include <string>

#include <unistd.h>

#include "memleax/base/name_filter.hpp"
#include "memleax/elf/symbol_table.hpp"

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
