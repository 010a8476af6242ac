// SPDX-License-Identifier: GPL-3.0-or-later
/// The SystemTap probes that a module has, for who only wants to list them.
#pragma once

#include <vector>

#include "memleax/elf/elf_image.hpp"
#include "memleax/elf/sdt_probes.hpp"

namespace memleax {

/// By a handle of its own: in any thread.
std::vector<SdtProbe> probes_of(const ElfImage& image);

} // namespace memleax
