// SPDX-License-Identifier: GPL-3.0-or-later
/// The variables of one module by address: those with static storage, thread-local ones aside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"

struct Dwfl_Module;

namespace memleax {

/// Names point into the Dwfl session, which must outlive the index.
class VariableIndex {
  public:
    explicit VariableIndex(Dwfl_Module* module);

    struct Found {
        std::string_view name; ///< mangled; without a version
        std::string_view file; ///< last component; "" if that is not known
        ElfAddr start;
    };
    /// The variable that contains this address.
    [[nodiscard]] std::optional<Found> find(ElfAddr address) const;

  private:
    struct Variable {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        const char* name = nullptr;
        const char* file = nullptr; ///< null: global, or not known
    };
    std::vector<Variable> variables_; ///< by begin
};

} // namespace memleax
