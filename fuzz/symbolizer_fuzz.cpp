// SPDX-License-Identifier: GPL-3.0-or-later
// DWARF: units, lines, inlined functions, names; symbols by libdwfl; compressed sections; split
// DWARF and its likes, which are looked for and not there.
#include "fuzz_support.hpp"
#include "memleax/symbols/symbolizer.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto image = fuzz::image_of({data, size});
    if (image == nullptr) {
        return 0;
    }
    const auto module = fuzz::module_of(image);
    Symbolizer symbolizer(Symbolizer::Options{});
    symbolizer.set_modules({module}, nullptr);
    constexpr std::size_t kFrames = 16;
    for (const std::uint64_t address : fuzz::addresses_in(*image, kFrames)) {
        const auto frames = symbolizer.resolve(FrameAddress::exact(CodeAddr(address)), 0);
        FUZZ_CHECK(frames != nullptr && !frames->empty() && frames->size() < 1000);
        for (const SourceFrame& frame : *frames) {
            FUZZ_CHECK(frame.function.size() < 1U << 20 && frame.file.size() < 1U << 20);
        }
    }
    FUZZ_CHECK(!symbolizer.describe(*module).files.empty());
    return 0;
}
