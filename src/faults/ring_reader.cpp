// SPDX-License-Identifier: GPL-3.0-or-later
#include "ring_reader.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <sys/resource.h>

#include "memleax/base/all_signals_blocked.hpp"
#include "perf_record.hpp"

namespace memleax {

namespace {

constexpr std::chrono::milliseconds kReadEvery(4);
/// In bytes: what may wait for the tracer thread. At 10^4 faults a second that comes in 3 s.
constexpr std::size_t kMostWaiting = std::size_t{256} << 20;

} // namespace

RingReader::RingReader(std::vector<PerfRing>& rings) : rings_(rings) {
    const AllSignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
}

RingReader::~RingReader() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

void RingReader::run() {
    constexpr int kHighest = -20;
    setpriority(PRIO_PROCESS, 0, kHighest); // of this thread, on Linux; root may
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kReadEvery, [this] { return stop_; })) {
        if (read_.bytes.size() < kMostWaiting) {
            read_rings();
        }
    }
}

void RingReader::read_rings() {
    for (PerfRing& ring : rings_) {
        ring.drain(&read_.bytes, [this](std::size_t at, std::size_t size) {
            const auto record = std::span(std::as_const(read_.bytes)).subspan(at, size);
            read_.records.push_back({perf_record_time(record), at, size});
        });
    }
}

bool RingReader::any() {
    const std::lock_guard lock(mutex_);
    return !read_.records.empty() ||
           std::any_of(rings_.begin(), rings_.end(),
                       [](const auto& ring) { return ring.filled() != 0; });
}

void RingReader::take(RecordBatch* batch) {
    const std::lock_guard lock(mutex_);
    read_rings();
    if (batch->records.empty()) {
        std::swap(batch->bytes, read_.bytes); // each keeps its room
        std::swap(batch->records, read_.records);
    } else {
        for (RecordBatch::Record record : read_.records) {
            record.at += batch->bytes.size();
            batch->records.push_back(record);
        }
        batch->bytes.insert(batch->bytes.end(), read_.bytes.begin(), read_.bytes.end());
    }
    read_.bytes.clear();
    read_.records.clear();
}

} // namespace memleax
