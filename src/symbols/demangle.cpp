// SPDX-License-Identifier: GPL-3.0-or-later
#include <cctype>
#include <cstdlib>
#include <memory>

#include <libiberty/demangle.h>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

namespace {

// Names come from files that may be broken: a short one can be made to expand without end.
constexpr std::size_t kMaxMangled = std::size_t{64} * 1024;
constexpr std::size_t kMaxDemangled = std::size_t{64} * 1024;

/// The parameters, and not the return type, which only templates' names have.
constexpr int kOptions = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;

void append(const char* text, std::size_t size, void* name) {
    auto* result = static_cast<std::string*>(name);
    result->append(text, std::min(size, kMaxDemangled - result->size()));
}

} // namespace

std::string demangle(const std::string& name) {
    const bool itanium_or_rust = name.starts_with("_Z") || name.starts_with("_R");
    const bool d = name.starts_with("_D") && name.size() > 2 &&
                   std::isdigit(static_cast<unsigned char>(name[2])) != 0;
    if ((!itanium_or_rust && !d && name != "_Dmain") || name.size() > kMaxMangled) {
        return name;
    }
    if (!itanium_or_rust) {
        const std::unique_ptr<char, void (*)(void*)> plain(
            cplus_demangle(name.c_str(), kOptions | DMGL_DLANG), std::free);
        return plain != nullptr ? std::string(plain.get()) : name;
    }
    // Rust's legacy names are valid C++ ones that end in a hash, so Rust goes first.
    std::string plain;
    if (rust_demangle_callback(name.c_str(), kOptions, append, &plain) != 0) {
        return plain;
    }
    plain.clear();
    if (cplus_demangle_v3_callback(name.c_str(), kOptions, append, &plain) != 0) {
        return plain;
    }
    return name;
}

} // namespace memleax
