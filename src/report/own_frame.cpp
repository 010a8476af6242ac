// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/own_frame.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "begins_one_of.hpp"
#include "function_name.hpp"
#include "rust_name.hpp"

namespace memleax {

namespace {

/// What modules of runtimes and allocators begin with.
constexpr std::array<std::string_view, 16> kRuntimeModules{
    "libc.so",     "libc-2.",     "libc.musl",  "ld-linux", "ld-musl",    "libstdc++",
    "libc++",      "libgcc_s",    "libm.so",    "libm-2.",  "libpthread", "libjemalloc",
    "libtcmalloc", "libmimalloc", "linux-vdso", "[vdso]"};

/// What names in standard libraries begin with, also where they were compiled into the program.
/// Rust's have a file of their own.
constexpr std::array<std::string_view, 9> kRuntimeNames{
    "std::",   "__gnu_cxx::", "operator new", "operator delete", "__cxxabiv1::", "__rust_",
    "__rustc", "__rdl_",      "__rg_"};

/// A program can have its allocator linked in.
constexpr std::array<std::string_view, 15> kAllocators{
    "malloc",        "calloc",         "realloc",       "reallocarray",   "memalign",
    "aligned_alloc", "posix_memalign", "valloc",        "pvalloc",        "strdup",
    "strndup",       "__libc_malloc",  "__libc_calloc", "__libc_realloc", "__rdl_alloc"};

/// Is `name` this operator, of all or of a class: "operator new", "shop::Row::operator new[]"?
bool is_operator(std::string_view name, std::string_view which) {
    const auto at = name.rfind(which);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != ':')) {
        return false;
    }
    const std::string_view rest = name.substr(at + which.size());
    return rest.empty() || rest.starts_with('[') || rest.starts_with('<');
}

/// The C library's functions that the compiler takes from a header, as asprintf and realpath with
/// _FORTIFY_SOURCE: glibc has them in bits/, musl's in fortify/. C++'s headers there have names
/// that say so.
bool is_c_header(const SourceFrame& frame) {
    const std::string_view file = frame.file;
    constexpr auto kNone = std::string_view::npos;
    return frame.inlined && frame.function.find("::") == std::string::npos &&
           (file.find("/usr/include/") != kNone || file.find("-glibc-") != kNone) &&
           (file.find("/bits/") != kNone || file.find("/fortify/") != kNone);
}

/// A wrapper's static functions have no names in a stripped program: AllocSetAlloc below
/// PostgreSQL's MemoryContextAlloc. So many frames further out the wrapper must be.
constexpr unsigned kPartsOfAWrapper = 3;

/// Has this function no name, and does a wrapper of the same module allocate by it? What calls
/// it must be named a wrapper: a function that was only learned to be one may do more.
bool is_part_of_wrapper(Backtrace::Iterator frame, Backtrace::Iterator end,
                        const Wrappers& wrappers) {
    if (!frame->function.empty()) {
        return false;
    }
    const std::string& module = frame->module;
    for (unsigned i = 0; i < kPartsOfAWrapper; ++i) {
        if (++frame == end || frame->module != module) {
            return false;
        }
        if (!frame->function.empty()) {
            return wrappers.names(*frame);
        }
    }
    return false;
}

} // namespace

bool is_allocator(const SourceFrame& frame) {
    const std::string_view name = bare_name(frame.function);
    return std::find(kAllocators.begin(), kAllocators.end(), name) != kAllocators.end() ||
           is_operator(name, "operator new");
}

bool is_standard_library(const SourceFrame& frame) {
    const std::string_view name = bare_name(frame.function);
    // C++ programs have a namespace "core", too; Rust's names have no parameters.
    const bool may_be_rust = !has_parameters(frame.function);
    return begins_one_of(name, kRuntimeNames) || (may_be_rust && is_rust_library(name)) ||
           is_c_header(frame);
}

bool is_own_code(const SourceFrame& frame) {
    if (begins_one_of(frame.module, kRuntimeModules) || is_standard_library(frame)) {
        return false;
    }
    return !is_allocator(frame) && !is_operator(bare_name(frame.function), "operator delete");
}

std::size_t own_frame(const Backtrace& frames, const Wrappers& wrappers) {
    std::optional<std::size_t> wrapper;
    std::size_t index = 0;
    for (auto frame = frames.begin(); frame != frames.end(); ++frame, ++index) {
        const bool is_known = !frame->function.empty() || !frame->module.empty();
        if (!is_known || !is_own_code(*frame)) {
            continue;
        }
        if (wrappers.contains(*frame)) {
            wrapper = wrapper.value_or(index);
        } else if (!is_part_of_wrapper(frame, frames.end(), wrappers)) {
            return index;
        }
    }
    return wrapper.value_or(std::min<std::size_t>(1, index == 0 ? 0 : index - 1));
}

} // namespace memleax
