// SPDX-License-Identifier: GPL-3.0-or-later
/// Which of the report's modules a frame is in.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/report/report.hpp"

namespace memleax {

class ModuleIndex {
  public:
    /// `modules` must outlive this.
    explicit ModuleIndex(const std::vector<Report::Module>& modules);
    /// By name and address: libraries that are gone may have been where others are now. Of loads of
    /// one name at one place it is the last.
    [[nodiscard]] std::optional<std::size_t> find(const SourceFrame& frame) const;

  private:
    const std::vector<Report::Module>& modules_;
    absl::flat_hash_map<std::string_view, std::vector<std::size_t>> by_name_;
};

} // namespace memleax
