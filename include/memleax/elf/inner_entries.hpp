// SPDX-License-Identifier: GPL-3.0-or-later
/// Functions that are also entered behind their first instruction.
#pragma once

#include <set>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/elf/elf_image.hpp"

namespace memleax {

/// Those of `all` into whose first arch::kEntryJumpBytes something may lead: a branch
/// anywhere in the file's code (what gcc puts into NAME.cold goes back so), or the symbol of
/// another function that begins there. Code is not decoded, as nobody knows where an instruction of
/// hand-written code begins: what looks like a branch counts for one. Branches that reach 128 bytes
/// only (x86_64's short ones) are not looked for: no compiler makes them between functions.
/// All of them, where the code cannot be read or is more than a GiB. Reads the code once: 4 ms for
/// libc, half a second for a browser.
std::set<ElfAddr> find_inner_entries(const ElfImage& image, std::vector<ElfAddr> all);

} // namespace memleax
