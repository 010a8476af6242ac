// SPDX-License-Identifier: GPL-3.0-or-later
// Which glibc is it? A shared one says so itself.
#include <algorithm>
#include <array>
#include <bitset>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "glibc_places.hpp"
#include "module_search.hpp"

namespace memleax {

namespace {

/// The number in "GNU C Library (...) stable release version 2.36."; "" if it is not there.
std::string version_of(const Module& module) {
    constexpr std::string_view kBanner = "GNU C Library";
    constexpr std::string_view kBefore = "release version ";
    constexpr std::size_t kLongest = 256;
    std::string version;
    search_file(module, [&](std::string_view text) {
        const std::size_t banner = text.find(kBanner);
        const std::size_t before = text.find(kBefore, banner);
        if (banner == std::string_view::npos || before == std::string_view::npos ||
            before - banner > kLongest) {
            return false;
        }
        const std::size_t begin = before + kBefore.size();
        const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
        version = text.substr(begin, end - begin);
        while (version.ends_with('.')) { // the sentence's
            version.pop_back();
        }
        return true;
    });
    return version;
}

/// A static program has no such banner, but malloc's messages and file names, which have become
/// more. Each one came with a version, and the later ones have it as well.
constexpr std::array<std::string_view, 4> kTexts{
    "malloc(): largebin double linked list corrupted (bk)", // 2.30, which is as 2.31
    "malloc(): unaligned tcache chunk detected",            // 2.32
    "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",   // 2.35
    "malloc(): chunk size mismatch in fastbin"};            // 2.42
using Texts = std::bitset<kTexts.size()>;

Texts texts_in(const Module& module) {
    Texts has;
    search_file(module, [&](std::string_view text) {
        for (std::size_t i = 0; i < kTexts.size(); ++i) {
            has[i] = has[i] || text.find(kTexts.at(i)) != std::string_view::npos;
        }
        return false;
    });
    return has;
}

/// Null: it has none of glibc's malloc, or that of a version that we do not know.
const glibc::Layout* layout_of(Texts has) {
    switch (has.to_ulong()) {
    case 0b0001:
        return &glibc::kLayout31;
    case 0b0011:
        return &glibc::kLayout32;
    case 0b0111:
        return &glibc::kLayout35;
    default:
        return nullptr;
    }
}

/// Whose code may change an arena.
constexpr std::array<std::string_view, 18> kEntryPoints{
    "malloc",    "free",        "calloc",  "realloc",      "memalign",           "aligned_alloc",
    "valloc",    "pvalloc",     "cfree",   "malloc_trim",  "posix_memalign",     "mallinfo",
    "mallinfo2", "malloc_info", "mallopt", "malloc_stats", "malloc_usable_size", "reallocarray",
};

} // namespace

bool is_glibc(const Module& module) {
    return exports(module, "gnu_get_libc_version");
}

bool has_glibc_inside(const Module& program) {
    return texts_in(program).any();
}

std::optional<Glibc> find_static_glibc(const Module& program) {
    if (const glibc::Layout* layout = layout_of(texts_in(program))) {
        return Glibc{&program, layout, find_code(program, SymbolTable::full, kEntryPoints)};
    }
    return std::nullopt;
}

Result<Glibc> find_shared_glibc(const Module& libc) {
    const std::string version = version_of(libc);
    const auto* const known =
        std::find_if(glibc::kVersions.begin(), glibc::kVersions.end(),
                     [&version](const glibc::Version& each) { return each.number == version; });
    if (known == glibc::kVersions.end()) {
        return Error(fmt::format("the heap cannot be read: {} is glibc {}, and memleax knows the "
                                 "heap of glibc {} to {} only",
                                 libc.path, version.empty() ? "of an unknown version" : version,
                                 glibc::kVersions.front().number, glibc::kVersions.back().number));
    }
    return Glibc{&libc, known->layout, find_code(libc, SymbolTable::dynamic, kEntryPoints)};
}

} // namespace memleax
