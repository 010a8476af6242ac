// SPDX-License-Identifier: GPL-3.0-or-later
/// What is asked for with --probe: SystemTap's probes by PROVIDER:NAME, and functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memleax/elf/sdt_probes.hpp"

namespace memleax {

/// Complete before the first look.
class ProbeRequests {
  public:
    /// "libc:memory_*" (a glob, glob(7)), or a function's name as in the symbol table. False if it
    /// is neither.
    [[nodiscard]] bool add(const std::string& text);

    [[nodiscard]] bool empty() const { return globs_.empty() && functions_.empty(); }
    [[nodiscard]] bool any_sdt() const { return !globs_.empty(); }
    [[nodiscard]] const std::vector<std::string>& functions() const { return functions_; }
    /// In the order in which they were asked for.
    [[nodiscard]] const std::vector<std::string>& all() const { return all_; }
    /// Is this one of those that are asked for?
    [[nodiscard]] bool wants(const SdtProbe& probe) const;
    [[nodiscard]] bool wants_function(std::string_view name) const;
    /// Is the probe of this name one that this text of all() asks for?
    [[nodiscard]] static bool asks_for(const std::string& text, const std::string& name);

  private:
    std::vector<std::string> all_;
    std::vector<std::string> globs_;
    std::vector<std::string> functions_;
};

/// What a probe of the C library's means ("a heap is begun"); "" for one that is not known.
std::string_view explain_probe(std::string_view full_name);

} // namespace memleax
