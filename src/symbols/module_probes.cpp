// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/symbols/module_probes.hpp"

#include "debug_image.hpp"
#include "memleax/elf/elf_file.hpp"

namespace memleax {

std::vector<SdtProbe> probes_of(const ElfImage& image) {
    return read_sdt_probes(ElfFile(open_again(image)).get());
}

} // namespace memleax
