// SPDX-License-Identifier: GPL-3.0-or-later
/// Pages of ours that a recovery record tells of: are they in the process, and not something else?
#pragma once

#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// Leaves those of our data's ranges that the process has: wholly in mappings that are wiped in
/// forked children (MADV_WIPEONFORK).
void keep_wiped(Tid pid, std::vector<AddrRange>* data);

/// Is it mapped as our first pages are: anonymous, and not writable? Where our handler is not, the
/// process may have something of its own there, after an exec.
[[nodiscard]] bool may_be_ours(Tid pid, AddrRange range);

/// Strikes off what is not ours any more, as far as nobody has noted it: the process has executed
/// another program since, or is a forked child that has unmapped our pages by itself, when it was
/// told to by who then died. Something of its own may lie there.
void forget_what_is_gone(RecoveryRecord& record);

} // namespace memleax
