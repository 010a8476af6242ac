// SPDX-License-Identifier: GPL-3.0-or-later
#include "rust_name.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "begins_one_of.hpp"

namespace memleax {

namespace {

/// A name comes from an untrusted file, and may nest as deep as it is long.
constexpr unsigned kMostNested = 16;

/// C++ programs have namespaces of that name, too, so of "alloc" the modules are listed.
constexpr std::array<std::string_view, 19> kLibraryPaths{
    "std::",           "core::",         "hashbrown::",      "alloc::alloc::",
    "alloc::borrow::", "alloc::boxed::", "alloc::bstr::",    "alloc::collections::",
    "alloc::ffi::",    "alloc::fmt::",   "alloc::raw_vec::", "alloc::rc::",
    "alloc::slice::",  "alloc::str::",   "alloc::string::",  "alloc::sync::",
    "alloc::task::",   "alloc::vec::",   "alloc::wtf8::"};
/// In angle brackets there is no C++.
constexpr std::array<std::string_view, 4> kLibraryCrates{
    "std::", "core::", "hashbrown::", "alloc::"};

/// Traits that the library implements for every type, the user's as well, and what an allocator is.
/// So are those whose names begin with "Spec": they are private.
constexpr std::array<std::string_view, 6> kLibrarysOwnTraits{
    "alloc::string::ToString",       "alloc::slice::hack::ConvertVec",   "core::convert::Into",
    "core::clone::uninit::CopySpec", "core::alloc::global::GlobalAlloc", "core::alloc::Allocator"};

enum class Owner {
    library,
    other,
    nobody ///< a type parameter, a primitive type, a slice, a tuple
};

/// The parts of an impl's name: "<TYPE as TRAIT>::f", "<TYPE>::f".
struct Impl {
    std::string_view type;
    std::string_view trait; ///< "" if there is none
};

std::optional<Impl> impl_of(std::string_view name) {
    std::size_t as = std::string_view::npos;
    std::size_t depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (name.substr(i).starts_with("->")) { // fn() -> T
            ++i;
        } else if (c == '<' || c == '(' || c == '[' || c == '{') {
            ++depth;
        } else if (c == '>' || c == ')' || c == ']' || c == '}') {
            if (--depth == 0) {
                if (!name.substr(i).starts_with(">::")) {
                    return std::nullopt;
                }
                const std::string_view inside = name.substr(0, i);
                return as == std::string_view::npos
                           ? Impl{inside.substr(1), ""}
                           : Impl{inside.substr(1, as - 1), inside.substr(as + 4)};
            }
        } else if (depth == 1 && name.substr(i).starts_with(" as ")) {
            as = i;
        }
    }
    return std::nullopt;
}

bool is_library(std::string_view name, unsigned depth);

Owner owner_of(std::string_view type, unsigned depth) {
    constexpr std::array<std::string_view, 5> kPointers{"&", "mut ", "*const ", "*mut ", "dyn "};
    for (bool cut = true; cut;) {
        cut = false;
        for (const std::string_view pointer : kPointers) {
            if (type.starts_with(pointer)) {
                type.remove_prefix(pointer.size());
                cut = true;
            }
        }
    }
    if (type.starts_with('<')) { // a closure, or a type within a function
        return is_library(type, depth + 1) ? Owner::library : Owner::other;
    }
    if (type.substr(0, type.find_first_of("<([ ")).find("::") == std::string_view::npos) {
        return Owner::nobody;
    }
    return begins_one_of(type, kLibraryCrates) ? Owner::library : Owner::other;
}

bool is_librarys_own(std::string_view trait, unsigned depth) {
    if (trait.starts_with('<')) { // within a function, where nobody else can implement it
        return is_library(trait, depth + 1);
    }
    const std::string_view path = trait.substr(0, trait.find('<'));
    const auto last = path.rfind("::");
    return begins_one_of(path, kLibraryCrates) &&
           (std::find(kLibrarysOwnTraits.begin(), kLibrarysOwnTraits.end(), path) !=
                kLibrarysOwnTraits.end() ||
            (last != std::string_view::npos && path.substr(last + 2).starts_with("Spec")));
}

bool is_library(std::string_view name, unsigned depth) {
    if (!name.starts_with('<') || depth > kMostNested) {
        return begins_one_of(name, kLibraryPaths);
    }
    const auto impl = impl_of(name);
    if (!impl) {
        return false;
    }
    if (impl->trait.empty()) {
        return owner_of(impl->type, depth) != Owner::other;
    }
    return is_librarys_own(impl->trait, depth) || (owner_of(impl->trait, depth) == Owner::library &&
                                                   owner_of(impl->type, depth) != Owner::other);
}

} // namespace

bool is_rust_library(std::string_view name) {
    return is_library(name, 0);
}

} // namespace memleax
