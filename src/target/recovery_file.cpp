// SPDX-License-Identifier: GPL-3.0-or-later
// Where records lie: in the file that the guardian has, too, or in memory of our own.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

namespace {

/// Whatever the page size is: arm64 has up to 64 KiB.
constexpr std::size_t kPage = std::size_t{64} * 1024;

constexpr std::size_t in_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

/// A record's first bytes, with so many breakpoints, which are at its end.
constexpr std::size_t bytes_with(std::size_t breakpoints) {
    return in_pages(offsetof(RecoveryRecord, breakpoints) +
                    breakpoints * sizeof(RecoveryRecord::Breakpoint));
}

constexpr std::size_t kRecordBytes = in_pages(sizeof(RecoveryRecord));
static_assert(bytes_with(RecoveryRecord::kMaxBreakpoints) == kRecordBytes);

/// What mmap(2) has returned; null after a failure.
std::shared_ptr<RecoveryRecord> record_at(void* at, std::size_t bytes) {
    if (at == MAP_FAILED) {
        return nullptr;
    }
    return {static_cast<RecoveryRecord*>(at),
            [bytes](RecoveryRecord* record) { munmap(record, bytes); }};
}

} // namespace

std::size_t RecoveryFile::size() {
    return in_pages(sizeof(Header)) + kMaxProcesses * kRecordBytes;
}

Result<std::unique_ptr<RecoveryFile>> RecoveryFile::create() {
    const int fd = memfd_create("memleax-recovery", MFD_CLOEXEC);
    if (fd < 0) {
        return Error("cannot make a memory file", errno);
    }
    if (ftruncate(fd, static_cast<off_t>(size())) != 0) {
        const int errnum = errno;
        close(fd);
        return Error("cannot size a memory file", errnum);
    }
    auto file = open(fd);
    if (file) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&(*file)->header_->lock, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    return file;
}

Result<std::unique_ptr<RecoveryFile>> RecoveryFile::open(int fd) {
    void* at = mmap(nullptr, in_pages(sizeof(Header)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        const int errnum = errno;
        close(fd);
        return Error("cannot map a memory file", errnum);
    }
    return std::unique_ptr<RecoveryFile>(new RecoveryFile(fd, static_cast<Header*>(at)));
}

RecoveryFile::~RecoveryFile() {
    munmap(header_, in_pages(sizeof(Header)));
    close(fd_);
}

void RecoveryFile::hold() {
    if (pthread_mutex_lock(&header_->lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&header_->lock);
    }
}

void RecoveryFile::release() {
    pthread_mutex_unlock(&header_->lock);
}

bool RecoveryFile::wait_for_holders_death() {
    const bool died = pthread_mutex_lock(&header_->lock) == EOWNERDEAD;
    if (died) {
        pthread_mutex_consistent(&header_->lock);
    }
    pthread_mutex_unlock(&header_->lock);
    return died;
}

std::shared_ptr<RecoveryRecord> RecoveryFile::try_map(std::size_t index, std::size_t breakpoints) {
    const std::size_t bytes = bytes_with(breakpoints);
    return record_at(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                          static_cast<off_t>(in_pages(sizeof(Header)) + index * kRecordBytes)),
                     bytes);
}

std::shared_ptr<RecoveryRecord> RecoveryFile::claim() {
    for (std::size_t i = 0; i < kMaxProcesses; ++i) {
        if (header_->taken[i].exchange(1) != 0) {
            continue;
        }
        if (header_->claimed.load() <= i) {
            header_->claimed.store(static_cast<std::uint32_t>(i + 1));
        }
        const auto mapped = try_map(i, RecoveryRecord::kMaxBreakpoints);
        if (mapped == nullptr) {
            header_->taken[i].store(0);
            throw std::bad_alloc();
        }
        return {mapped.get(), [mapped, taken = &header_->taken[i]](RecoveryRecord* record) {
                    record->pid.store(0);
                    record->has_copy.store(0);
                    record->forget_memory();
                    for (RecoveryRecord::OwedSignal& entry : record->owed) {
                        entry.tid.store(0);
                    }
                    record->owed_count.store(0);
                    taken->store(0);
                }};
    }
    if (!std::exchange(told_, true)) {
        log_warning("more than {} processes are watched at once: should memleax be killed, "
                    "breakpoints stay in those beyond",
                    kMaxProcesses);
    }
    return private_record();
}

// The guardian may have as little memory as we had (ulimit -v), and needs it for more than this.
std::vector<std::shared_ptr<RecoveryRecord>> RecoveryFile::in_use() {
    std::vector<std::shared_ptr<RecoveryRecord>> result;
    for (std::size_t i = 0; i < header_->claimed.load(); ++i) {
        auto record = try_map(i, 0);
        if (record != nullptr && record->pid.load() == 0) {
            continue;
        }
        const std::size_t breakpoints = record != nullptr
                                            ? std::min<std::size_t>(record->breakpoint_count.load(),
                                                                    RecoveryRecord::kMaxBreakpoints)
                                            : 0;
        if (breakpoints != 0) {
            record = try_map(i, breakpoints);
        }
        if (record != nullptr) {
            result.push_back(std::move(record));
        } else {
            log_warning("it cannot be read what memleax has changed in a process: {}",
                        std::strerror(errno));
        }
    }
    return result;
}

// Read, and not mapped: who has it may shorten it.
bool RecoveryFile::tells_of(int fd, Tid pid, std::uint64_t start_time) {
    struct stat facts {};
    std::uint32_t claimed = 0;
    if (fstat(fd, &facts) != 0 || facts.st_size != static_cast<off_t>(size()) ||
        pread(fd, &claimed, sizeof claimed, offsetof(Header, claimed)) != sizeof claimed) {
        return false; // another version's, or no such file
    }
    struct {
        std::int32_t pid;
        std::uint64_t start_time;
    } record{};
    static_assert(offsetof(RecoveryRecord, start_time) ==
                  offsetof(RecoveryRecord, pid) + sizeof(std::uint64_t));
    for (std::size_t i = 0; i < std::min<std::size_t>(claimed, kMaxProcesses); ++i) {
        const std::size_t at =
            in_pages(sizeof(Header)) + i * kRecordBytes + offsetof(RecoveryRecord, pid);
        if (pread(fd, &record, sizeof record, static_cast<off_t>(at)) == sizeof record &&
            record.pid == pid.value() && record.start_time == start_time) {
            return true;
        }
    }
    return false;
}

std::shared_ptr<RecoveryRecord> RecoveryFile::private_record(std::size_t most_breakpoints) {
    const std::size_t bytes = bytes_with(most_breakpoints);
    auto record = record_at(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                            bytes);
    if (record == nullptr) {
        throw std::bad_alloc();
    }
    return record;
}

} // namespace memleax
