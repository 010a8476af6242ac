// SPDX-License-Identifier: GPL-3.0-or-later
/// The end of our descriptor table is kept free.
///
/// Leaving the target needs descriptors (/proc files of threads, of a child that is to be cleaned).
/// If the files of the target's modules took them all, a fork of the target would end in a child
/// with breakpoints in it. So whoever opens what stays open gives back what comes near the limit;
/// as the kernel hands out the lowest number that is free, the number tells.
#pragma once

#include "memleax/base/error.hpp"

namespace memleax {

/// Is this one of the last descriptors that we may have?
bool is_spare_descriptor(int fd);

/// Before anything is done: are there enough for what we always need, and the spare ones?
Result<void> check_descriptors();

} // namespace memleax
