// SPDX-License-Identifier: GPL-3.0-or-later
/// Reading small files of /proc, whose size is not known before.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

namespace memleax {

/// The whole file; nothing if it cannot be opened or read (errno says why).
std::optional<std::string> try_read_proc_file(const std::string& path);

} // namespace memleax
