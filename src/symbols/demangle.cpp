// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include <libiberty/demangle.h>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

namespace {

// Names come from files that may be broken: a short one can be made to expand without end.
constexpr std::size_t kMaxMangled = std::size_t{64} * 1024;
constexpr std::size_t kMaxDemangled = std::size_t{64} * 1024;

/// The parameters, and not the return type, which only templates' names have.
constexpr int kOptions = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;

/// What a name is made to. Its substitutions may double it with each ten bytes, so that the library
/// would print for years what nobody keeps: it is left, and has nothing but its stack.
struct Printed {
    std::string text;
    std::jmp_buf too_long;
};

void append(const char* text, std::size_t size, void* printed) {
    auto* result = static_cast<Printed*>(printed);
    if (size > kMaxDemangled - result->text.size()) {
        std::longjmp(result->too_long, 1); // NOLINT(cert-err52-cpp): out of C
    }
    result->text.append(text, size);
}

/// Its back references (Q) double a name likewise, and the library ends the process where there is
/// no memory for it.
bool may_grow_too_long(const std::string& d_name) {
    constexpr std::size_t kMostDoublings = 16;
    const auto doublings = static_cast<std::size_t>(std::count(d_name.begin(), d_name.end(), 'Q'));
    return d_name.size() << std::min(doublings, kMostDoublings) > std::size_t{16} * kMaxDemangled;
}

std::optional<std::string> demangled_by(decltype(cplus_demangle_v3_callback) library,
                                        const std::string& name) {
    Printed printed;
    if (setjmp(printed.too_long) != 0) { // NOLINT(cert-err52-cpp)
        return std::nullopt;
    }
    return library(name.c_str(), kOptions, append, &printed) != 0
               ? std::optional(std::move(printed.text))
               : std::nullopt;
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
        if (may_grow_too_long(name)) {
            return name;
        }
        const std::unique_ptr<char, void (*)(void*)> plain(
            cplus_demangle(name.c_str(), kOptions | DMGL_DLANG), std::free);
        return plain != nullptr ? std::string(plain.get()) : name;
    }
    // Rust's legacy names are valid C++ ones that end in a hash, so Rust goes first.
    for (const auto demangle_by : {rust_demangle_callback, cplus_demangle_v3_callback}) {
        if (auto plain = demangled_by(demangle_by, name)) {
            return *std::move(plain);
        }
    }
    return name;
}

} // namespace memleax
