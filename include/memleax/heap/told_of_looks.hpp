// SPDX-License-Identifier: GPL-3.0-or-later
/// How a look at a heap is made, if the user may wonder: a line that need not be read twice.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "memleax/base/types.hpp"

namespace memleax {

/// Of one process. A line is left out if it was among those of the look before.
class ToldOfLooks {
  public:
    void begin_look();
    void tell(const std::string& line);

  private:
    std::set<std::string> before_; ///< at the last look
    std::set<std::string> now_;
};

/// Why it stands still for longer than a fork takes.
std::string not_forked_text(Tid pid, std::string_view why);

/// Why no block is called lost.
inline constexpr std::string_view kUnreadSharedText =
    "shared memory that the process has not touched could not be read, so blocks to which nothing "
    "else points are called possibly lost, not lost";

} // namespace memleax
