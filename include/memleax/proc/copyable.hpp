// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"

namespace memleax {

/// close_range(2), Linux 5.9, which older headers do not know. A copy needs it.
inline constexpr long kCloseRange = 436;

/// What speaks against making a copy of a process by clone(2), and ending that again: no copy can
/// be made, or the process or others would come to harm, or notice it. Before anybody is stopped.
Result<void> check_copyable(Tid pid);

/// The part of it that the mappings tell, to be looked at again when all stand still.
Result<void> check_mappings_copyable(std::span<const Mapping> mappings);

/// Its memory whose missing pages the process may have to bring itself (userfaultfd(2)): to read
/// one while all its threads stand still would be to wait for ever.
std::vector<AddrRange> memory_served_by_itself(Tid pid);

/// What a copy takes, for MemoryRoom::check().
inline constexpr const char* kMemoryAgain = "its memory a second time";

/// For what a process takes by itself while there is a copy of it: as long as less than this is
/// left, there is to be none.
std::uint64_t room_to_be_left(std::uint64_t written_bytes);

/// Does who reads this userfaultfd wait for forks? By the text of its /proc/PID/fdinfo/FD (the
/// kernel's fs/userfaultfd.c, userfaultfd_show_fdinfo); true if it is none.
bool is_told_of_forks(std::string_view fdinfo);

} // namespace memleax
