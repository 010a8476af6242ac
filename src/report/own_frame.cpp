// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/own_frame.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace memleax {

namespace {

/// Beginnings of the names of modules that nobody takes for his own code.
constexpr std::array<std::string_view, 17> kRuntimeModules{
    "libc.so",      "libc-",        "libc.musl", "ld-",          "libstdc++.so", "libc++.so",
    "libc++abi.so", "libgcc_s.so",  "libm.so",   "libpthread",   "libdl.so",     "librt.so",
    "libjemalloc",  "libtcmalloc",  "libmimalloc", "libasan.so", "[vdso]"};

/// Of a statically linked program the runtime is known by its functions only.
constexpr std::array<std::string_view, 15> kAllocationFunctions{
    "malloc",   "calloc", "realloc",  "reallocarray",  "memalign", "posix_memalign", "aligned_alloc",
    "valloc",   "pvalloc", "strdup",  "__strdup",      "strndup",  "__strndup",      "asprintf",
    "vasprintf"};

constexpr std::array<std::string_view, 6> kRuntimeNamespaces{
    "std::", "__gnu_cxx::", "operator new", "alloc::", "core::", "__rust_"};

bool is_allocation(const SourceFrame& frame) {
    return std::find(kAllocationFunctions.begin(), kAllocationFunctions.end(), frame.function) !=
           kAllocationFunctions.end();
}

/// "void std::vector<int>::push_back(int)": a template's name comes with its result type.
bool is_in_runtime_namespace(std::string_view function) {
    const std::string_view head = function.substr(0, function.find_first_of("<("));
    const std::string_view last = head.substr(head.rfind(' ') == std::string_view::npos
                                                  ? 0
                                                  : head.rfind(' ') + 1);
    return std::any_of(kRuntimeNamespaces.begin(), kRuntimeNamespaces.end(),
                       [&](std::string_view space) {
                           return function.starts_with(space) || last.starts_with(space);
                       });
}

bool is_runtime(const SourceFrame& frame) {
    const std::string_view module = frame.module;
    return std::any_of(kRuntimeModules.begin(), kRuntimeModules.end(),
                       [module](std::string_view name) { return module.starts_with(name); }) ||
           is_allocation(frame) || is_in_runtime_namespace(frame.function);
}

} // namespace

const SourceFrame* own_frame(const Backtrace& frames) {
    if (frames.empty()) {
        return nullptr;
    }
    const auto own = std::find_if_not(frames.begin(), frames.end(), is_runtime);
    if (own != frames.end()) {
        return &*own;
    }
    const auto other = std::find_if_not(frames.begin(), frames.end(), is_allocation);
    return other != frames.end() ? &*other : &*frames.begin();
}

} // namespace memleax
