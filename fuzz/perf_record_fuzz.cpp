// SPDX-License-Identifier: GPL-3.0-or-later
// A ring of perf records: two positions, and what is in it. The kernel writes it, but a part of
// each sample are the target's registers, its stack, and paths that it has chosen.
#include <algorithm>
#include <bit>

#include "fuzz_support.hpp"
#include "perf_record.hpp"
#include "perf_ring.hpp"

using namespace memleax;

namespace {

bool is_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.empty() || (part.data() >= whole.data() &&
                            part.data() + part.size() <= whole.data() + whole.size());
}

void check(std::span<const std::byte> record) {
    static_cast<void>(perf_record_time(record));
    const auto parsed = parse_perf_record(record);
    if (!parsed) {
        return;
    }
    if (const auto* sample = std::get_if<FaultSample>(&*parsed)) {
        FUZZ_CHECK(is_within(sample->stack, record));
    } else if (const auto* mapped = std::get_if<MappedSample>(&*parsed)) {
        FUZZ_CHECK(is_within(std::as_bytes(std::span(mapped->path)), record));
        for (const char c : mapped->path) { // every byte of it is there
            FUZZ_CHECK(c != '\0');
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kSmallest = 64;
    fuzz::Input input(data, size);
    const auto head = input.number<std::uint64_t>();
    const auto tail = input.number<std::uint64_t>();
    const fuzz::Bytes bytes = input.rest();
    std::vector<std::byte> ring(std::bit_ceil(std::max(bytes.size(), kSmallest)));
    std::ranges::copy(std::as_bytes(bytes), ring.begin());
    RingRecords records(ring, head, tail);
    std::vector<std::byte> record;
    std::size_t all = 0;
    for (std::size_t got = 0; (got = records.next(&record)) != 0; record.clear()) {
        FUZZ_CHECK(got == record.size());
        all += got;
        FUZZ_CHECK(all <= ring.size());
        check(record);
    }
    FUZZ_CHECK(records.tail() == head);
    return 0;
}
