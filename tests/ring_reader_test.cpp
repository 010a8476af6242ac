// SPDX-License-Identifier: GPL-3.0-or-later
// The thread that empties perf rings, while a thread of the test writes as the kernel does.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../src/faults/ring_reader.hpp"

namespace memleax {
namespace {

/// A sample as far as RingReader reads it, and what tells it from others.
struct Sample {
    perf_event_header header{PERF_RECORD_SAMPLE, 0, sizeof(Sample)};
    std::uint64_t identifier = 0;
    std::uint32_t pid = 1;
    std::uint32_t tid = 1;
    std::int64_t time = 0;
    std::uint64_t address = 0;
};
static_assert(sizeof(Sample) == 40); // no divisor of a ring's size: records wrap

/// Both sides of a ring that no event belongs to.
class WrittenRing {
  public:
    static constexpr std::size_t kSize = 4096 * 16; // a power of two, of pages of up to 64 KiB

    WrittenRing()
        : header_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
          fd_(memfd_create("ring", MFD_CLOEXEC)) {
        EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(header_bytes_ + kSize)), 0);
        void* base =
            mmap(nullptr, header_bytes_ + kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        EXPECT_NE(base, MAP_FAILED);
        page_ = static_cast<perf_event_mmap_page*>(base);
    }
    ~WrittenRing() {
        munmap(page_, header_bytes_ + kSize);
        close(fd_);
    }
    WrittenRing(const WrittenRing&) = delete;
    WrittenRing& operator=(const WrittenRing&) = delete;

    [[nodiscard]] PerfRing reader_side() const { return *PerfRing::map(fd_, kSize); }

    /// Where there is no room the kernel would count it as lost; this waits, unless `stop` is set.
    void write(const Sample& sample, const std::atomic<bool>& stop) {
        const std::uint64_t head = page_->data_head;
        while (head + sizeof(sample) - __atomic_load_n(&page_->data_tail, __ATOMIC_ACQUIRE) >
               kSize) {
            if (stop) {
                return;
            }
            std::this_thread::yield();
        }
        const auto bytes = std::as_bytes(std::span(&sample, 1));
        auto* data = reinterpret_cast<std::byte*>(page_) + header_bytes_;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            data[(head + i) % kSize] = bytes[i];
        }
        __atomic_store_n(&page_->data_head, head + sizeof(sample), __ATOMIC_RELEASE);
    }

  private:
    std::size_t header_bytes_;
    int fd_;
    perf_event_mmap_page* page_ = nullptr;
};

std::vector<PerfRing> reader_sides(std::span<const WrittenRing> rings) {
    std::vector<PerfRing> result;
    result.reserve(rings.size());
    for (const WrittenRing& ring : rings) {
        result.push_back(ring.reader_side());
    }
    return result;
}

/// `address` is the number of the ring, `time` that of the sample.
void write_samples(WrittenRing& ring, std::uint64_t number, std::int64_t count,
                   const std::atomic<bool>& stop) {
    for (std::int64_t i = 0; i < count && !stop; ++i) {
        Sample sample;
        sample.address = number;
        sample.time = i;
        ring.write(sample, stop);
    }
}

TEST(RingReader, GivesEachRecordOnceAndInOrder) {
    constexpr std::int64_t kSamples = 20'000; // twelve times what a ring holds
    std::array<WrittenRing, 2> rings;
    std::vector<PerfRing> sides = reader_sides(rings);
    RingReader reader(sides);
    const std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < rings.size(); ++i) {
        writers.emplace_back([&rings, &stop, i] { write_samples(rings[i], i, kSamples, stop); });
    }
    std::array<std::int64_t, rings.size()> next{};
    bool is_right = true;
    while (is_right && std::any_of(next.begin(), next.end(), [](auto n) { return n < kSamples; })) {
        RecordBatch batch;
        reader.take(&batch);
        reader.take(&batch); // appends
        for (const RecordBatch::Record& record : batch.records) {
            Sample sample;
            ASSERT_EQ(record.size, sizeof(sample));
            ASSERT_LE(record.at + record.size, batch.bytes.size());
            std::memcpy(&sample, batch.bytes.data() + record.at, sizeof(sample));
            is_right = sample.address < next.size() && sample.time == next[sample.address] &&
                       record.time.value() == sample.time;
            EXPECT_TRUE(is_right) << "ring " << sample.address << ", sample " << sample.time;
            if (!is_right) {
                break;
            }
            ++next[sample.address];
        }
    }
    for (std::thread& writer : writers) {
        writer.join();
    }
    EXPECT_FALSE(reader.any());
    RecordBatch rest;
    reader.take(&rest);
    EXPECT_TRUE(rest.records.empty());
}

TEST(RingReader, TellsThatThereIsSomething) {
    std::array<WrittenRing, 1> rings;
    std::vector<PerfRing> sides = reader_sides(rings);
    RingReader reader(sides);
    EXPECT_FALSE(reader.any());
    const std::atomic<bool> stop{false};
    write_samples(rings[0], 0, 1, stop);
    EXPECT_TRUE(reader.any()); // whether or not its thread has been there
    RecordBatch batch;
    reader.take(&batch);
    EXPECT_EQ(batch.records.size(), 1U);
    EXPECT_FALSE(reader.any());
}

TEST(RingReader, EndsWhileRecordsCome) {
    std::array<WrittenRing, 1> rings;
    std::atomic<bool> stop{false};
    std::thread writer;
    {
        std::vector<PerfRing> sides = reader_sides(rings);
        RingReader reader(sides);
        writer = std::thread([&] { write_samples(rings[0], 0, INT64_MAX, stop); });
        RecordBatch batch;
        while (batch.records.size() < 10'000) { // six times what the ring holds
            reader.take(&batch);
        }
    }
    stop = true;
    writer.join();
}

} // namespace
} // namespace memleax
