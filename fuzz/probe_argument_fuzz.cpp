// SPDX-License-Identifier: GPL-3.0-or-later
// The arguments of SystemTap's probes: what a note says they are, and what they are then, with
// registers and memory of the input's.
#include "fuzz_support.hpp"
#include "memleax/probes/probe_argument.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of({data, size});
    const auto arguments = parse_probe_arguments(text);
    FUZZ_CHECK(arguments.size() <= size);
    const auto regs = fuzz::Input(data, size).number<arch::Registers>();
    fuzz::RepeatedMemory memory(0, 1U << 20, {data, size});
    for (const ProbeArgument& argument : arguments) {
        FUZZ_CHECK(argument.bytes <= 8);
        const auto value = value_of(argument, regs, memory);
        FUZZ_CHECK(!value || argument.operand);
        if (value && argument.bytes < 8) {
            const std::int64_t most = std::int64_t{1} << (8 * argument.bytes);
            FUZZ_CHECK(*value < most && *value >= (argument.is_signed ? -most / 2 : 0));
        }
    }
    return 0;
}
