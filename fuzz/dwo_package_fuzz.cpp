// SPDX-License-Identifier: GPL-3.0-or-later
// .dwp files: the index, and the units that are taken out of the package by it. The ids that are
// asked for are whatever eight bytes of the input follow each other.
#include <algorithm>

#include <unistd.h>

#include "../src/symbols/dwo_package.hpp"
#include "fuzz_support.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto package = DwoPackage::open(fuzz::memory_file({data, size}));
    if (package == nullptr) {
        return 0;
    }
    constexpr std::size_t kUnits = 8;
    constexpr std::size_t kIds = 8192;
    std::size_t units = 0;
    for (std::size_t at = 0; at < std::min(size, kIds) && units < kUnits; ++at) {
        const int fd = package->make_dwo(fuzz::Input(data + at, size - at).number<std::uint64_t>());
        if (fd < 0) {
            continue;
        }
        ++units;
        const off_t bytes = lseek(fd, 0, SEEK_END);
        FUZZ_CHECK(bytes > 0);
        (void)ElfImage::from_descriptor(fd, "unit"); // takes it over
    }
    return 0;
}
