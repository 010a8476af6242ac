// SPDX-License-Identifier: GPL-3.0-or-later
// Names of generated code, in a file that the target writes while we read it: in two pieces.
#include "fuzz_support.hpp"
#include "memleax/proc/perf_map.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::size_t first = input.number<std::uint16_t>();
    const std::string_view text = fuzz::text_of(input.rest());
    PerfMap map;
    const std::size_t done = map.add(text.substr(0, std::min(first, text.size())));
    FUZZ_CHECK(done <= std::min(first, text.size()));
    FUZZ_CHECK(map.add(text.substr(done)) + done <= text.size());
    for (unsigned shift = 0; shift < 64; ++shift) {
        for (const std::uint64_t address : {std::uint64_t{1} << shift, ~std::uint64_t{0} >> shift,
                                            std::uint64_t{0x1234567} << shift}) {
            if (const auto* function = map.find(address)) {
                FUZZ_CHECK(function->begin <= address && address < function->end);
                FUZZ_CHECK(!function->name.empty() && function->name.size() <= text.size());
            }
        }
    }
    return 0;
}
