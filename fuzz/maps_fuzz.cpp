// SPDX-License-Identifier: GPL-3.0-or-later
// Lines of /proc/PID/maps. A process chooses the names of the files that it maps, and, by
// PR_SET_VMA_ANON_NAME, of memory that is none.
#include "fuzz_support.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of({data, size});
    const auto mappings = parse_maps(text);
    std::size_t names = 0;
    for (const Mapping& mapping : mappings) {
        FUZZ_CHECK(mapping.range.begin < mapping.range.end);
        names += mapping.path.size();
    }
    FUZZ_CHECK(names <= size); // nothing is there twice
    return 0;
}
