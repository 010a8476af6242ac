// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process has that a fork, which it has not asked for, may do harm to.
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// A descriptor: an io_uring, or a userfaultfd whose reader has to be told of a fork.
Result<void> check_descriptors_copyable(Tid pid);

/// Private huge pages of a pool (MAP_HUGETLB), which is as large as somebody has made it.
Result<void> check_huge_pages_copyable(Tid pid);

} // namespace memleax
