// SPDX-License-Identifier: GPL-3.0-or-later
// Records of a perf ring buffer, and the ring: bytes in, records out.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../src/faults/perf_record.hpp"
#include "../src/faults/perf_ring.hpp"

namespace memleax {
namespace {

using Bytes = std::vector<std::byte>;

template <class T> void put(Bytes* out, T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out->insert(out->end(), bytes.begin(), bytes.end());
}
void put_text(Bytes* out, const std::string& text, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        out->push_back(static_cast<std::byte>(i < text.size() ? text[i] : '\0'));
    }
}
/// With its header, which tells its size.
Bytes record(std::uint32_t type, const Bytes& body) {
    Bytes result;
    put(&result, perf_event_header{
                     type, 0, static_cast<std::uint16_t>(sizeof(perf_event_header) + body.size())});
    result.insert(result.end(), body.begin(), body.end());
    return result;
}

Bytes sample(std::uint64_t abi = PERF_SAMPLE_REGS_ABI_64, std::uint64_t room = 64,
             std::uint64_t copied = 24) {
    Bytes body;
    put<std::uint64_t>(&body, 77);
    put<std::int32_t>(&body, 4711);
    put<std::int32_t>(&body, 4712);
    put<std::int64_t>(&body, 123456789);
    put<std::uint64_t>(&body, 0x7f0000001234);
    put(&body, abi);
    for (std::uint64_t i = 0; abi != 0 && i < arch::kPerfRegisterCount; ++i) {
        put<std::uint64_t>(&body, 1000 + i);
    }
    put(&body, room);
    for (std::uint64_t i = 0; i < room; ++i) {
        put(&body, static_cast<std::uint8_t>(i));
    }
    if (room != 0) {
        put(&body, copied);
    }
    return record(PERF_RECORD_SAMPLE, body);
}

Bytes mapped(const std::string& path, std::size_t room, std::uint64_t begin = 0x10000,
             std::uint64_t size = 0x3000, std::uint32_t protection = 3) {
    Bytes body;
    put<std::int32_t>(&body, 4711);
    put<std::int32_t>(&body, 4712);
    put(&body, begin);
    put(&body, size);
    put<std::uint64_t>(&body, 0x2000);
    put_text(&body, "", 24); // device, inode
    put(&body, protection);
    put<std::uint32_t>(&body, 0); // flags
    put_text(&body, path, room);
    put<std::uint64_t>(&body, 0x126800001267); // pid, tid
    put<std::int64_t>(&body, 987654321);
    put<std::uint64_t>(&body, 77);
    return record(PERF_RECORD_MMAP2, body);
}

TEST(PerfRecord, ASample) {
    const Bytes bytes = sample();
    const auto parsed = parse_perf_record(bytes);
    ASSERT_TRUE(parsed);
    const auto& fault = std::get<FaultSample>(*parsed);
    EXPECT_EQ(fault.event, 77U);
    EXPECT_EQ(fault.pid, Tid(4711));
    EXPECT_EQ(fault.tid, Tid(4712));
    EXPECT_EQ(fault.time, MonotonicNs(123456789));
    EXPECT_EQ(perf_record_time(bytes), MonotonicNs(123456789));
    EXPECT_EQ(fault.address, RemoteAddr(0x7f0000001234));
    ASSERT_TRUE(fault.registers);
    const unsigned sp_bit = arch::kPerfRegisterCount == 33 ? 31 : 7;
    const unsigned pc_bit = arch::kPerfRegisterCount == 33 ? 32 : 8;
    EXPECT_EQ(arch::sp(*fault.registers), RemoteAddr(1000 + sp_bit));
    EXPECT_EQ(arch::pc(*fault.registers), CodeAddr(1000 + pc_bit));
    ASSERT_EQ(fault.stack.size(), 24U);
    EXPECT_EQ(fault.stack[23], std::byte{23});
}

TEST(PerfRecord, ASampleWithoutRegistersOrStack) {
    const Bytes bytes = sample(PERF_SAMPLE_REGS_ABI_NONE, 0);
    const auto parsed = parse_perf_record(bytes);
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(std::get<FaultSample>(*parsed).registers);
    EXPECT_TRUE(std::get<FaultSample>(*parsed).stack.empty());
    const Bytes of_32_bits = sample(PERF_SAMPLE_REGS_ABI_32);
    const auto other = parse_perf_record(of_32_bits);
    ASSERT_TRUE(other);
    EXPECT_FALSE(std::get<FaultSample>(*other).registers);
}

TEST(PerfRecord, NoMoreOfTheStackThanThereIsRoomFor) {
    const Bytes bytes = sample(PERF_SAMPLE_REGS_ABI_64, 64, 1ULL << 40);
    EXPECT_EQ(std::get<FaultSample>(*parse_perf_record(bytes)).stack.size(), 64U);
    Bytes larger = sample();
    const std::uint64_t room = ~7ULL; // where 64 stood
    std::memcpy(larger.data() + larger.size() - 8 - 64 - 8, &room, sizeof room);
    EXPECT_FALSE(parse_perf_record(larger));
}

TEST(PerfRecord, AMapping) {
    const Bytes bytes = mapped("/usr/lib/libc.so.6", 24);
    const auto parsed = parse_perf_record(bytes);
    ASSERT_TRUE(parsed);
    const auto& mapping = std::get<MappedSample>(*parsed);
    EXPECT_EQ(mapping.pid, Tid(4711));
    EXPECT_EQ(mapping.range, (AddrRange{0x10000, 0x13000}));
    EXPECT_EQ(mapping.offset, FileOffset(0x2000));
    EXPECT_EQ(mapping.path, "/usr/lib/libc.so.6");
    EXPECT_TRUE(mapping.is_accessible);
    EXPECT_EQ(perf_record_time(bytes), MonotonicNs(987654321));
    const Bytes guard = mapped("//anon", 8, 0x10000, 0x3000, 0);
    EXPECT_FALSE(std::get<MappedSample>(*parse_perf_record(guard)).is_accessible);
}

TEST(PerfRecord, AMappingThatIsNone) {
    EXPECT_FALSE(parse_perf_record(mapped("x", 8, ~0ULL - 4095, 0x2000)));
    EXPECT_FALSE(parse_perf_record(mapped("x", 8, 0x10000, 0)));
    EXPECT_FALSE(parse_perf_record(mapped("without an end", 14)));
}

TEST(PerfRecord, LostOnes) {
    Bytes body;
    put<std::uint64_t>(&body, 77);
    put<std::uint64_t>(&body, 12);
    const Bytes lost = record(PERF_RECORD_LOST, body);
    EXPECT_EQ(std::get<LostSamples>(*parse_perf_record(lost)).count, 12U);
}

TEST(PerfRecord, OtherKindsAndOtherSizesAreNone) {
    EXPECT_FALSE(parse_perf_record({}));
    EXPECT_FALSE(parse_perf_record(record(PERF_RECORD_EXIT, Bytes(40))));
    Bytes longer = sample();
    longer.push_back(std::byte{});
    EXPECT_FALSE(parse_perf_record(longer));
}

TEST(PerfRecord, CutAnywhere) {
    for (const Bytes& whole : {sample(), mapped("/lib/x", 8)}) {
        for (std::size_t size = 0; size < whole.size(); ++size) {
            // In memory of its own: a sanitizer sees what is read beyond its end.
            Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            perf_record_time(cut);
            EXPECT_FALSE(parse_perf_record(cut)) << size;
            if (size >= sizeof(perf_event_header)) {
                perf_event_header header{};
                std::memcpy(&header, cut.data(), sizeof header);
                header.size = static_cast<std::uint16_t>(size);
                std::memcpy(cut.data(), &header, sizeof header);
                parse_perf_record(cut); // whatever it says
            }
        }
    }
}

TEST(PerfRecord, AnyBytes) {
    std::mt19937_64 random(1); // NOLINT(*-msc51-cpp): the same each time
    for (int i = 0; i < 20000; ++i) {
        Bytes bytes = random() % 2 == 0 ? sample() : mapped("/lib/x", 8);
        for (std::uint64_t change = random() % 8 + 1; change > 0; --change) {
            bytes.at(random() % bytes.size()) = static_cast<std::byte>(random());
        }
        perf_record_time(bytes);
        if (const auto parsed = parse_perf_record(bytes)) {
            if (const auto* fault = std::get_if<FaultSample>(&*parsed)) {
                EXPECT_LE(fault->stack.size(), bytes.size());
            }
        }
    }
}

/// Puts bytes where a ring of this size has them at this position.
void write_at(Bytes* ring, std::uint64_t position, const Bytes& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        (*ring)[(position + i) % ring->size()] = bytes[i];
    }
}

TEST(RingRecords, OverTheEndOfTheRing) {
    const Bytes one = record(1, Bytes(24, std::byte{1}));
    const Bytes two = record(2, Bytes(40, std::byte{2}));
    for (std::uint64_t begin = 0; begin < 256; begin += 8) {
        Bytes ring(128);
        write_at(&ring, begin, one);
        write_at(&ring, begin + one.size(), two);
        RingRecords records(ring, begin + one.size() + two.size(), begin);
        Bytes out;
        EXPECT_EQ(records.next(&out), one.size());
        EXPECT_EQ(out, one);
        out.clear();
        EXPECT_EQ(records.next(&out), two.size());
        EXPECT_EQ(out, two);
        EXPECT_EQ(records.next(&out), 0U);
        EXPECT_EQ(records.tail(), begin + one.size() + two.size());
    }
}

TEST(RingRecords, WhatIsNoRecordIsGivenUp) {
    Bytes out;
    Bytes ring(128);
    RingRecords zeros(ring, 64, 0); // a size of 0 would be read for ever
    EXPECT_EQ(zeros.next(&out), 0U);
    EXPECT_EQ(zeros.tail(), 64U);
    write_at(&ring, 0, record(1, Bytes(100)));
    RingRecords too_long(ring, 64, 0);
    EXPECT_EQ(too_long.next(&out), 0U);
    EXPECT_EQ(too_long.tail(), 64U);
    RingRecords more_than_the_ring(ring, 1000, 0);
    EXPECT_EQ(more_than_the_ring.next(&out), 0U);
    EXPECT_EQ(more_than_the_ring.tail(), 1000U);
    write_at(&ring, 0, record(1, Bytes(24))); // it would be read again and again
    RingRecords far_ahead(ring, std::uint64_t{1} << 40, 0);
    EXPECT_EQ(far_ahead.next(&out), 0U);
    EXPECT_EQ(far_ahead.tail(), std::uint64_t{1} << 40);
    RingRecords half_a_header(ring, 4, 0);
    EXPECT_EQ(half_a_header.next(&out), 0U);
    EXPECT_EQ(half_a_header.tail(), 4U);
    EXPECT_TRUE(out.empty());
}

} // namespace
} // namespace memleax
