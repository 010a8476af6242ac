// SPDX-License-Identifier: GPL-3.0-or-later
#include "inlined_frames.hpp"

#include <cstring>

#include <dwarf.h>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

namespace {

/// Nobody inlines deeper; a broken file might seem to.
constexpr std::size_t kMaxFrames = 100;
constexpr std::size_t kMaxScopes = 200;

// A string of DWARF may be as long as the file.
constexpr std::size_t kMaxName = std::size_t{64} * 1024;
constexpr std::size_t kMaxPath = 4096; // PATH_MAX

std::string text_or_empty(const char* text, std::size_t limit) {
    return text != nullptr ? std::string(text, strnlen(text, limit)) : "";
}

const char* linkage_name(Dwarf_Die* die) {
    for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
        Dwarf_Attribute attribute;
        if (const char* text = dwarf_formstring(dwarf_attr_integrate(die, name, &attribute))) {
            return text;
        }
    }
    return nullptr;
}

/// From an inlined instance or an out-of-line definition to where the source declares it.
Dwarf_Die declaration_of(Dwarf_Die die) {
    for (int hops = 0; hops < 8; ++hops) { // instance, abstract, specification; not a loop
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if (dwarf_formref_die(dwarf_attr(&die, DW_AT_abstract_origin, &attribute), &next) ==
                nullptr &&
            dwarf_formref_die(dwarf_attr(&die, DW_AT_specification, &attribute), &next) ==
                nullptr) {
            break;
        }
        die = next;
    }
    return die;
}

bool has_namespaces(Dwarf_Die die) {
    Dwarf_Die unit;
    if (dwarf_diecu(&die, &unit, nullptr, nullptr) == nullptr) {
        return false;
    }
    switch (dwarf_srclang(&unit)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler:
        return false;
    default:
        return true;
    }
}

bool is_named_scope(int tag) {
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
        return true;
    default:
        return false;
    }
}

/// The child of `parent` that is, or contains, the DIE at this offset.
bool child_around(Dwarf_Die* parent, Dwarf_Off offset, Dwarf_Die* child) {
    Dwarf_Die next;
    bool found = false;
    for (int end = dwarf_child(parent, &next); end == 0 && dwarf_dieoffset(&next) <= offset;
         end = dwarf_siblingof(&next, &next)) {
        *child = next;
        found = true;
    }
    return found;
}

/// "outer::Class::" for a function without a linkage name, as those with internal linkage. Walks
/// from the unit down: dwarf_getscopes_die() calls itself for each level, and a file can have more
/// levels than we have stack.
std::string enclosing_scopes(const Dwarf_Die& function) {
    Dwarf_Die declaration = declaration_of(function);
    std::string prefix;
    Dwarf_Die scope;
    if (!has_namespaces(declaration) ||
        dwarf_diecu(&declaration, &scope, nullptr, nullptr) == nullptr) {
        return prefix;
    }
    const Dwarf_Off offset = dwarf_dieoffset(&declaration);
    for (std::size_t depth = 0;
         depth < kMaxScopes && prefix.size() < kMaxName && child_around(&scope, offset, &scope) &&
         dwarf_dieoffset(&scope) != offset;
         ++depth) {
        if (is_named_scope(dwarf_tag(&scope))) {
            const char* name = dwarf_diename(&scope);
            prefix += text_or_empty(name != nullptr ? name : "(anonymous namespace)", kMaxName);
            prefix += "::";
        }
    }
    return prefix;
}

std::string function_name(Dwarf_Die* die) {
    if (const char* name = linkage_name(die)) {
        return demangle(text_or_empty(name, kMaxName));
    }
    const char* name = dwarf_diename(die); // also from the abstract origin
    return name != nullptr ? enclosing_scopes(*die) + text_or_empty(name, kMaxName) : "";
}

struct SourceLine {
    std::string file;
    unsigned line = 0;
};

SourceLine line_at(Dwarf_Die* unit, Dwarf_Addr address) {
    SourceLine result;
    if (Dwarf_Line* line = dwarf_getsrc_die(unit, address)) {
        int number = 0;
        dwarf_lineno(line, &number);
        result.file = text_or_empty(dwarf_linesrc(line, nullptr, nullptr), kMaxPath);
        result.line = number > 0 ? static_cast<unsigned>(number) : 0;
    }
    return result;
}

std::optional<Dwarf_Word> unsigned_attribute(Dwarf_Die* die, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0) {
        return std::nullopt;
    }
    return value;
}

/// Where an inlined function was called: a line of the next outer frame.
SourceLine call_site(Dwarf_Die* inlined) {
    SourceLine result;
    Dwarf_Die unit;
    Dwarf_Files* files = nullptr;
    const auto file = unsigned_attribute(inlined, DW_AT_call_file);
    if (file && dwarf_diecu(inlined, &unit, nullptr, nullptr) != nullptr &&
        dwarf_getsrcfiles(&unit, &files, nullptr) == 0) {
        result.file = text_or_empty(dwarf_filesrc(files, *file, nullptr, nullptr), kMaxPath);
    }
    result.line = static_cast<unsigned>(unsigned_attribute(inlined, DW_AT_call_line).value_or(0));
    return result;
}

} // namespace

DwarfFrames find_dwarf_frames(Dwarf_Die unit, const UnitFunctions& functions, Dwarf_Addr address) {
    DwarfFrames result;
    SourceLine at = line_at(&unit, address);
    const auto add = [&](std::string function, bool inlined) {
        SourceFrame frame;
        frame.function = std::move(function);
        frame.file = at.file;
        frame.line = at.line;
        frame.inlined = inlined;
        result.frames.push_back(std::move(frame));
    };
    for (Dwarf_Die& scope : functions.scopes_at(address)) {
        const int tag = dwarf_tag(&scope);
        if (tag == DW_TAG_inlined_subroutine && result.frames.size() < kMaxFrames) {
            add(function_name(&scope), true);
            at = call_site(&scope);
        } else if (tag == DW_TAG_subprogram) {
            add(function_name(&scope), false);
            Dwarf_Addr start = 0;
            if (dwarf_entrypc(&scope, &start) == 0) {
                result.function_start = start;
            }
            return result;
        }
    }
    add("", false);
    return result;
}

} // namespace memleax
