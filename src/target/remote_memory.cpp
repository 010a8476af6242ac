// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/remote_memory.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

// Granularity of masked_pages_ only; need not be the kernel's page size.
constexpr unsigned kPageShift = 12;

} // namespace

Result<RemoteMemory> RemoteMemory::open(Tid pid) {
    const std::string path = fmt::format("/proc/{}/mem", living_thread(pid).value());
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return Error(fmt::format("cannot open {}", path), errno);
    }
    return RemoteMemory(pid, fd);
}

RemoteMemory::RemoteMemory(RemoteMemory&& other) noexcept
    : pid_(other.pid_), thread_(other.thread_.load()), fd_(std::exchange(other.fd_, -1)),
      masked_(std::move(other.masked_)), masked_pages_(std::move(other.masked_pages_)) {}

RemoteMemory& RemoteMemory::operator=(RemoteMemory&& other) noexcept {
    std::swap(pid_, other.pid_);
    thread_ = other.thread_.exchange(thread_);
    std::swap(fd_, other.fd_);
    masked_.swap(other.masked_);
    masked_pages_.swap(other.masked_pages_);
    return *this;
}

RemoteMemory::~RemoteMemory() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

std::size_t RemoteMemory::try_read_unmasked(RemoteAddr from, std::span<std::byte> out) const {
    const iovec local{out.data(), out.size()};
    const iovec remote{reinterpret_cast<void*>(from.value()), // NOLINT: an address of the target
                       out.size()};
    ssize_t got = process_vm_readv(thread_.load().value(), &local, 1, &remote, 1, 0);
    if (got < 0 && errno == ESRCH) {
        thread_ = living_thread(pid_); // the one that we asked has ended before the others
        got = process_vm_readv(thread_.load().value(), &local, 1, &remote, 1, 0);
    }
    if (got >= 0) {
        return static_cast<std::size_t>(got);
    }
    // EFAULT is the answer; anything else is about the way of asking: EPERM or ENOSYS under a
    // seccomp filter of ours, ESRCH once more because threads end at any moment.
    if (errno == EFAULT) {
        return 0;
    }
    const ssize_t again = pread(fd_, out.data(), out.size(), static_cast<off_t>(from.value()));
    return again > 0 ? static_cast<std::size_t>(again) : 0;
}

// FOLL_FORCE: proc_pid_mem(5).
std::size_t RemoteMemory::try_read_forced(RemoteAddr from, std::span<std::byte> out) const {
    if (const std::size_t got = try_read_unmasked(from, out); got == out.size()) {
        return got;
    }
    const ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(from.value()));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::size_t RemoteMemory::try_read(RemoteAddr from, std::span<std::byte> out) {
    const std::size_t got = try_read_unmasked(from, out);
    if (got == 0 || masked_.empty()) {
        return got;
    }
    const std::uint64_t begin = from.value();
    for (std::uint64_t page = begin >> kPageShift; page <= (begin + got - 1) >> kPageShift;
         ++page) {
        if (!masked_pages_.contains(page)) {
            continue;
        }
        const std::uint64_t page_end = (page + 1) << kPageShift;
        auto it = masked_.lower_bound(std::max(begin, page << kPageShift));
        for (; it != masked_.end() && it->first < std::min(begin + got, page_end); ++it) {
            out[it->first - begin] = std::byte{it->second};
        }
    }
    return got;
}

Result<void> RemoteMemory::write(RemoteAddr to, std::span<const std::uint8_t> bytes) {
    const ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(to.value()));
    if (put != static_cast<ssize_t>(bytes.size())) {
        return Error(fmt::format("cannot write {} bytes at {:#x} of process {}", bytes.size(),
                                 to.value(), pid_.value()),
                     put < 0    ? errno
                     : put == 0 ? ESRCH // the memory is no more (fs/proc/base.c, mem_rw)
                                : EFAULT);
    }
    return {};
}

void RemoteMemory::mask(RemoteAddr at, std::span<const std::uint8_t> original) {
    for (std::size_t i = 0; i < original.size(); ++i) {
        const std::uint64_t address = at.value() + i;
        if (masked_.insert_or_assign(address, original[i]).second) {
            ++masked_pages_[address >> kPageShift];
        }
    }
}

void RemoteMemory::unmask(RemoteAddr at, std::size_t size) {
    const auto begin = masked_.lower_bound(at.value());
    auto end = begin;
    for (; end != masked_.end() && end->first < at.value() + size; ++end) {
        const std::uint64_t page = end->first >> kPageShift;
        if (--masked_pages_[page] == 0) {
            masked_pages_.erase(page);
        }
    }
    masked_.erase(begin, end);
}

} // namespace memleax
