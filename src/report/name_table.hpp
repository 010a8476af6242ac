// SPDX-License-Identifier: GPL-3.0-or-later
/// Strings with numbers: formats refer to a name again by its number, and numbers compare quickly.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include <absl/container/flat_hash_map.h>

namespace memleax {

class NameTable {
  public:
    /// The number of a name, from 0 on in order of their first appearance, and whether it is new.
    std::pair<std::uint32_t, bool> number(std::string name) {
        const auto known = numbers_.find(name);
        if (known != numbers_.end()) {
            return {known->second, false};
        }
        names_.push_back(std::move(name));
        const auto number = static_cast<std::uint32_t>(names_.size() - 1);
        numbers_.emplace(names_.back(), number);
        return {number, true};
    }
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(names_.size()); }
    [[nodiscard]] const std::string& name(std::uint32_t number) const { return names_[number]; }

  private:
    std::deque<std::string> names_; ///< they stay where they are
    absl::flat_hash_map<std::string_view, std::uint32_t> numbers_;
};

} // namespace memleax
