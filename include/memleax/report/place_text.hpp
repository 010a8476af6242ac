// SPDX-License-Identifier: GPL-3.0-or-later
/// A frame of a call stack in a few words.
#pragma once

#include <string>

#include "memleax/events/source_frame.hpp"
#include "memleax/report/folded_name.hpp"

namespace memleax {

/// "parse_line", "shop::Store<...>::open"; without a name "memcached+0x11d1d", as addr2line(1)
/// wants it, or "0x7f0000001d1d".
std::string frame_name(const SourceFrame& frame, NameStyle style);

/// "leak.c:7", "leak.c"; "" if it is not known.
std::string source_text(const SourceFrame& frame, NameStyle style);

/// "parse_line (leak.c:7)", "png_read (libpng16.so.16)", "memcached+0x11d1d".
std::string place_text(const SourceFrame& frame, NameStyle style);

} // namespace memleax
