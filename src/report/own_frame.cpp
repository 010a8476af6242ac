// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/own_frame.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "memleax/report/function_name.hpp"

namespace memleax {

namespace {

/// What modules of runtimes and allocators begin with.
constexpr std::array<std::string_view, 16> kRuntimeModules{
    "libc.so",     "libc-2.",     "libc.musl",  "ld-linux", "ld-musl",    "libstdc++",
    "libc++",      "libgcc_s",    "libm.so",    "libm-2.",  "libpthread", "libjemalloc",
    "libtcmalloc", "libmimalloc", "linux-vdso", "[vdso]"};

/// What names in standard libraries begin with, also where they were compiled into the program.
constexpr std::array<std::string_view, 16> kRuntimeNames{
    "std::",        "__gnu_cxx::",  "operator new", "operator delete", "__cxxabiv1::",   "core::",
    "alloc::alloc", "alloc::vec::", "alloc::boxed", "alloc::string",   "alloc::raw_vec", "<alloc::",
    "<core::",      "<std::",       "__rust_",      "__rustc"};

/// A program can have its allocator linked in.
constexpr std::array<std::string_view, 15> kAllocators{
    "malloc",        "calloc",         "realloc",       "reallocarray",   "memalign",
    "aligned_alloc", "posix_memalign", "valloc",        "pvalloc",        "strdup",
    "strndup",       "__libc_malloc",  "__libc_calloc", "__libc_realloc", "__rdl_alloc"};

} // namespace

bool is_own_code(const SourceFrame& frame) {
    const auto begins_one_of = [](std::string_view text, const auto& list) {
        return std::any_of(list.begin(), list.end(),
                           [text](std::string_view each) { return text.starts_with(each); });
    };
    if (begins_one_of(frame.module, kRuntimeModules)) {
        return false;
    }
    const std::string_view name = bare_name(frame.function);
    return !begins_one_of(name, kRuntimeNames) &&
           std::find(kAllocators.begin(), kAllocators.end(), name) == kAllocators.end();
}

std::size_t own_frame(const Backtrace& frames) {
    std::size_t index = 0;
    for (const SourceFrame& frame : frames) {
        if (!frame.function.empty() && is_own_code(frame)) {
            return index;
        }
        ++index;
    }
    // Without names: the module tells.
    index = 0;
    for (const SourceFrame& frame : frames) {
        if (!frame.module.empty() && is_own_code(frame)) {
            return index;
        }
        ++index;
    }
    return std::min<std::size_t>(1, index == 0 ? 0 : index - 1);
}

} // namespace memleax
