// SPDX-License-Identifier: GPL-3.0-or-later
/// What is mapped where in a process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// One line of /proc/PID/maps (proc_pid_maps(5)).
struct Mapping {
    AddrRange range;
    bool readable = false;
    bool writable = false;
    bool executable = false;
    bool shared = false;
    FileOffset offset;
    std::uint64_t device = 0; ///< makedev(major, minor)
    std::uint64_t inode = 0;
    std::string
        path; ///< as the target names it, with "\012" turned back into newline; "" if anonymous
    bool deleted = false; ///< the kernel appended " (deleted)", which is not part of `path`
};

/// Parses the text of a maps file. Lines that are not understood are left out.
std::vector<Mapping> parse_maps(std::string_view text);

/// Reads and parses /proc/PID/maps.
Result<std::vector<Mapping>> read_maps(Tid pid);

} // namespace memleax
