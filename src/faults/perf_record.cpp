// SPDX-License-Identifier: GPL-3.0-or-later
#include "perf_record.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <sys/mman.h>

namespace memleax {

namespace {

/// Takes fields off the begin of some bytes. Once too few are left, each is 0 and `ok()` false.
class FieldReader {
  public:
    explicit FieldReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T> T take() {
        T value{};
        if (const auto bytes = take_bytes(sizeof value); !bytes.empty()) {
            std::memcpy(&value, bytes.data(), sizeof value);
        }
        return value;
    }
    /// Empty if there are not as many.
    std::span<const std::byte> take_bytes(std::uint64_t count) {
        ok_ = ok_ && count <= rest_.size();
        if (!ok_) {
            return {};
        }
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
    [[nodiscard]] bool ok() const { return ok_; }

  private:
    std::span<const std::byte> rest_;
    bool ok_ = true;
};

/// What sample_id_all puts at the end of what is no sample: pid, tid, time, identifier.
constexpr std::size_t kSampleIdBytes = 24;

// Laid out as kSampleType has it: identifier, tid, time, addr, regs_user, stack_user.
std::optional<PerfRecord> parse_sample(FieldReader fields) {
    FaultSample sample;
    sample.event = fields.take<std::uint64_t>();
    sample.pid = Tid(fields.take<std::int32_t>());
    sample.tid = Tid(fields.take<std::int32_t>());
    sample.time = MonotonicNs(fields.take<std::int64_t>());
    sample.address = RemoteAddr(fields.take<std::uint64_t>());
    const auto abi = fields.take<std::uint64_t>();
    if (abi != PERF_SAMPLE_REGS_ABI_NONE) {
        std::array<std::uint64_t, arch::kPerfRegisterCount> values{};
        for (std::uint64_t& value : values) {
            value = fields.take<std::uint64_t>();
        }
        if (abi == PERF_SAMPLE_REGS_ABI_64) {
            sample.registers = arch::registers_from_perf(values);
        }
    }
    // The room that was asked for, and behind it how much of it holds a copy.
    const auto room = fields.take<std::uint64_t>();
    if (room != 0) {
        sample.stack = fields.take_bytes(room);
        const auto copied = fields.take<std::uint64_t>();
        sample.stack = sample.stack.first(std::min<std::uint64_t>(copied, sample.stack.size()));
    }
    return fields.ok() ? std::optional<PerfRecord>(sample) : std::nullopt;
}

std::optional<PerfRecord> parse_mapped(FieldReader fields) {
    MappedSample mapped;
    mapped.pid = Tid(fields.take<std::int32_t>());
    fields.take<std::int32_t>(); // tid
    const auto begin = fields.take<std::uint64_t>();
    const auto size = fields.take<std::uint64_t>();
    mapped.offset = FileOffset(fields.take<std::uint64_t>());
    constexpr std::size_t kDeviceAndInode = 4 + 4 + 8 + 8;
    fields.take_bytes(kDeviceAndInode);
    mapped.is_accessible = fields.take<std::uint32_t>() != PROT_NONE;
    fields.take<std::uint32_t>(); // flags of mmap(2)
    if (!fields.ok() || size == 0 || begin + size < begin) {
        return std::nullopt;
    }
    mapped.range = AddrRange::at(RemoteAddr(begin), size);
    const std::span<const std::byte> rest = fields.rest();
    const std::string_view name(
        reinterpret_cast<const char*>(rest.data()), // NOLINT(*-reinterpret-cast)
        rest.size() - std::min(rest.size(), kSampleIdBytes));
    const auto end = name.find('\0');
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    mapped.path = name.substr(0, end);
    return mapped;
}

std::optional<PerfRecord> parse_lost(FieldReader fields) {
    fields.take<std::uint64_t>(); // of which event, as one of those that share the buffer
    const LostSamples lost{fields.take<std::uint64_t>()};
    return fields.ok() ? std::optional<PerfRecord>(lost) : std::nullopt;
}

} // namespace

std::optional<PerfRecord> parse_perf_record(std::span<const std::byte> record) {
    FieldReader fields(record);
    const auto header = fields.take<perf_event_header>();
    if (!fields.ok() || header.size != record.size()) {
        return std::nullopt;
    }
    switch (header.type) {
    case PERF_RECORD_SAMPLE:
        return parse_sample(fields);
    case PERF_RECORD_MMAP2:
        return parse_mapped(fields);
    case PERF_RECORD_LOST:
        return parse_lost(fields);
    default:
        return std::nullopt;
    }
}

MonotonicNs perf_record_time(std::span<const std::byte> record) {
    FieldReader fields(record);
    const auto header = fields.take<perf_event_header>();
    // Identifier and tid come before it in a sample, and the identifier behind it elsewhere.
    constexpr std::size_t kBefore = 16;
    constexpr std::size_t kBehind = 16;
    const std::size_t rest = fields.rest().size();
    fields.take_bytes(header.type == PERF_RECORD_SAMPLE ? kBefore
                                                        : std::max(rest, kBehind) - kBehind);
    return MonotonicNs(fields.take<std::int64_t>());
}

} // namespace memleax
