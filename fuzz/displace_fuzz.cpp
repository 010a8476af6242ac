// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as an instruction to be moved out of line.
#include "arch.hpp"
#include "fuzz_support.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    constexpr std::uint64_t kUser = (std::uint64_t{1} << 47U) - 4096;
    const CodeAddr from(input.number<std::uint64_t>() % kUser);
    const std::uint64_t distance = input.number<std::uint32_t>();
    const CodeAddr slot((from.value() + distance) % kUser);
    const fuzz::Bytes bytes = input.rest();
    const auto moved = arch::displace(from, bytes, slot);
    if (!moved) {
        FUZZ_CHECK(!moved.error().message().empty());
        return 0;
    }
    FUZZ_CHECK(!moved->code.empty() && moved->code.size() <= arch::kSlotBytes);
    FUZZ_CHECK(moved->original_length > 0 && moved->original_length <= bytes.size());
    FUZZ_CHECK(!moved->points.empty() && moved->points.front().offset == 0);
    unsigned last = 0;
    for (const arch::SlotPoint& point : moved->points) {
        FUZZ_CHECK(point.offset >= last && point.offset < moved->code.size());
        last = point.offset;
    }
    // "Pure": once more, the same.
    const auto again = arch::displace(from, bytes, slot);
    FUZZ_CHECK(again && again->code == moved->code);
    return 0;
}
