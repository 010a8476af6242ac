// SPDX-License-Identifier: GPL-3.0-or-later
// What a file says about where its debug information is: .gnu_debuglink, .gnu_debugaltlink and
// notes (the build-id), each with a part of the input in it.
#include <algorithm>

#include <elf.h>

#include "fuzz_support.hpp"
#include "memleax/symbols/symbolizer.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto part = [&input] { return input.bytes(input.number<std::uint8_t>()); };
    const fuzz::Bytes link = part();
    const fuzz::Bytes alt_link = part();
    const fuzz::Bytes note = part();
    const auto file = fuzz::elf_with({{".gnu_debuglink", SHT_PROGBITS, link},
                                      {".gnu_debugaltlink", SHT_PROGBITS, alt_link},
                                      {".note.gnu.build-id", SHT_NOTE, note},
                                      {".debug_info", SHT_PROGBITS, input.rest()}});
    const auto image = fuzz::image_of(file);
    FUZZ_CHECK(image != nullptr);
    const std::string& id = image->build_id();
    FUZZ_CHECK(std::all_of(id.begin(), id.end(), [](char c) { return std::isxdigit(c) != 0; }));
    const auto module = fuzz::module_of(image);
    Symbolizer symbolizer(Symbolizer::Options{});
    symbolizer.set_modules({module}, nullptr);
    const CodeAddr pc(module->executable.at(0).begin + 8);
    FUZZ_CHECK(!symbolizer.resolve(FrameAddress::exact(pc), 0)->empty());
    FUZZ_CHECK(!symbolizer.describe(*module).files.empty());
    return 0;
}
