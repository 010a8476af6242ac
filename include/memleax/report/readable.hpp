// SPDX-License-Identifier: GPL-3.0-or-later
/// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memleax {

/// "512 B", "2.1 KiB", "1.4 MiB".
std::string bytes_text(double bytes);
/// "1 block", "2 blocks".
std::string number_of(std::uint64_t count, std::string_view what);

} // namespace memleax
