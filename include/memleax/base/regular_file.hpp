// SPDX-License-Identifier: GPL-3.0-or-later
/// Opening files whose paths, or whose places, others have a say in: what a process has mapped,
/// what an ELF file names as its debug information.
#pragma once

#include <string>

#include "memleax/base/error.hpp"

namespace memleax {

/// Opens an ordinary file for reading, and the descriptor is the caller's. What is there in its
/// place, a FIFO, a device, a socket, is not opened at all: a FIFO would make us wait for its
/// writer, and the mere opening of a device can have effects. Between look and open nobody can
/// exchange it. Nor is an empty file: files that the kernel makes up (proc(5), tracefs) have no
/// size, and reading one can wait, or take away what is for others.
Result<int> open_regular_file(const std::string& path);

/// The same with a directory (a descriptor of it) for "/": no link and no ".." leads out of it.
Result<int> open_regular_file_in(int root, const std::string& path);

} // namespace memleax
