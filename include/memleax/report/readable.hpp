// SPDX-License-Identifier: GPL-3.0-or-later
/// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memleax {

/// "512 B", "2.1 KiB", "1.4 MiB".
std::string bytes_text(double bytes);
/// The same with a sign, for changes: "+1.4 MiB", "-312 B", "+0 B".
std::string change_text(double bytes);
/// "1 block", "2 blocks".
std::string number_of(std::uint64_t count, std::string_view what);
/// 0 to 1 as "0%", "0.1%", "54.9%", "100%"; never 0 or 100 for what is not.
std::string share_text(double share);

} // namespace memleax
