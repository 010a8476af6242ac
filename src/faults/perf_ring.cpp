// SPDX-License-Identifier: GPL-3.0-or-later
#include "perf_ring.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

namespace memleax {

namespace {

/// The page before the data: perf_event_mmap_page.
std::size_t header_bytes() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

} // namespace

RingRecords::RingRecords(std::span<const std::byte> data, std::uint64_t head, std::uint64_t tail)
    : data_(data), head_(head), tail_(tail) {
    if (head_ - tail_ > data_.size()) {
        tail_ = head_;
    }
}

void RingRecords::copy(std::uint64_t from, std::span<std::byte> out) const {
    const std::size_t begin = from & (data_.size() - 1);
    const std::size_t first = std::min(out.size(), data_.size() - begin);
    std::memcpy(out.data(), data_.data() + begin, first);
    std::memcpy(out.data() + first, data_.data(), out.size() - first);
}

std::size_t RingRecords::next(std::vector<std::byte>* out) {
    const std::uint64_t left = head_ - tail_;
    perf_event_header header{};
    if (left >= sizeof header) {
        copy(tail_, std::as_writable_bytes(std::span(&header, 1)));
    }
    if (header.size < sizeof header || header.size > left || left > data_.size()) {
        tail_ = head_;
        return 0;
    }
    const std::size_t at = out->size();
    out->resize(at + header.size);
    copy(tail_, std::span(*out).subspan(at));
    tail_ += header.size;
    return header.size;
}

Result<PerfRing> PerfRing::map(int fd, std::size_t size) {
    void* const base =
        mmap(nullptr, header_bytes() + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return Error(fmt::format("cannot map {} bytes for page faults", size), errno)
            .with_advice("root can; other users need more of sysctl kernel.perf_event_mlock_kb "
                         "or of ulimit -l");
    }
    return PerfRing(base, size);
}

PerfRing::PerfRing(void* base, std::size_t size)
    : base_(base), data_(static_cast<const std::byte*>(base) + header_bytes(), size) {}

PerfRing::PerfRing(PerfRing&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), data_(other.data_), tail_(other.tail_) {}

PerfRing::~PerfRing() {
    if (base_ != nullptr) {
        munmap(base_, header_bytes() + data_.size());
    }
}

// What the kernel has written before it moved the head is to be seen after the head.
std::uint64_t PerfRing::head() const {
    return __atomic_load_n(&static_cast<const perf_event_mmap_page*>(base_)->data_head,
                           __ATOMIC_ACQUIRE);
}

std::size_t PerfRing::filled() const {
    return std::min<std::uint64_t>(head() - tail_, data_.size());
}

void PerfRing::set_tail(std::uint64_t tail) {
    tail_ = tail;
    __atomic_store_n(&static_cast<perf_event_mmap_page*>(base_)->data_tail, tail, __ATOMIC_RELEASE);
}

} // namespace memleax
