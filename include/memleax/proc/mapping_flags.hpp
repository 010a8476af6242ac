// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// The mappings that have this flag, of two letters, in the text of /proc/PID/smaps (proc(5),
/// VmFlags). Nothing if the text has no flags, or not all of them.
std::optional<std::vector<AddrRange>> parse_flagged_mappings(std::string_view smaps,
                                                             std::string_view flag);

/// Those of this process. The kernel walks its page tables for the answer.
std::optional<std::vector<AddrRange>> read_flagged_mappings(Tid pid, std::string_view flag);
/// The same of two flags, by one walk of all page tables.
std::optional<std::pair<std::vector<AddrRange>, std::vector<AddrRange>>>
read_flagged_mappings(Tid pid, std::string_view one, std::string_view other);

} // namespace memleax
