// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/recovery_record.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

/// Whatever the page size is: arm64 has up to 64 KiB.
constexpr std::size_t kPage = std::size_t{64} * 1024;

constexpr std::size_t in_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

constexpr std::size_t kRecordBytes = in_pages(sizeof(RecoveryRecord));

} // namespace

std::optional<std::uint32_t> RecoveryRecord::add_breakpoint(const CodePatch& patch,
                                                            std::span<const std::uint8_t> code,
                                                            std::optional<CodeAddr> slot,
                                                            bool takes_jump) {
    const std::uint32_t index = breakpoint_count.load(std::memory_order_relaxed);
    if (index == kMaxBreakpoints) {
        return std::nullopt;
    }
    Breakpoint& entry = breakpoints[index];
    entry.patch = patch;
    entry.slot = slot ? slot->value() : 0;
    entry.holds = false;
    entry.takes_jump = takes_jump;
    entry.stands_for = 0;
    entry.code_bytes = static_cast<std::uint8_t>(std::min(code.size(), entry.code.size()));
    std::copy_n(code.begin(), entry.code_bytes, entry.code.begin());
    breakpoint_count.store(index + 1, std::memory_order_release);
    return index;
}

// The reader comes after our death: what it needs is that the compiler keeps the order.
void RecoveryRecord::set_patch(std::uint32_t index, const CodePatch& patch) {
    CodePatch& entry = breakpoints[index].patch;
    entry.original = patch.original;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.size = patch.size;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.patched = patch.patched;
}

namespace {

template <std::size_t N>
bool add_range(std::array<AddrRange, N>& ranges, std::atomic<std::uint32_t>& count,
               AddrRange range) {
    const std::uint32_t index = count.load(std::memory_order_relaxed);
    if (index == N) {
        return false;
    }
    ranges[index] = range;
    count.store(index + 1, std::memory_order_release);
    return true;
}

template <std::size_t N>
void copy_ranges(const std::array<AddrRange, N>& from, const std::atomic<std::uint32_t>& count,
                 std::array<AddrRange, N>& to, std::atomic<std::uint32_t>& to_count) {
    std::copy_n(from.begin(), count.load(), to.begin());
    to_count.store(count.load());
}

} // namespace

bool RecoveryRecord::add_region(AddrRange region) {
    return add_range(regions, region_count, region);
}

bool RecoveryRecord::add_agent_code(AddrRange range) {
    return add_range(agent_code, agent_code_count, range);
}

bool RecoveryRecord::add_agent_data(AddrRange range) {
    return add_range(agent_data, agent_data_count, range);
}

// Empty until the last store, whatever it was before: who reads it may do so after our death.
void RecoveryRecord::set_handler(AddrRange page) {
    std::atomic_ref(handler.end).store(0);
    has_way_back.store(0);
    std::atomic_ref(handler.begin).store(page.begin);
    std::atomic_ref(handler.end).store(page.end);
}

// In its place, by one store: whoever reads it next may do so after our death.
void RecoveryRecord::on_unmapped(AddrRange range) {
    const auto strike_off = [range](std::span<AddrRange> ranges) {
        for (AddrRange& each : ranges) {
            if (each == range) {
                std::atomic_ref(each.end).store(each.begin);
            }
        }
    };
    strike_off({&handler, 1});
    strike_off(std::span(regions).first(region_count.load()));
    strike_off(std::span(agent_code).first(agent_code_count.load()));
    strike_off(std::span(agent_data).first(agent_data_count.load()));
}

bool RecoveryRecord::tells_of(std::uint64_t begin) const {
    const auto is_in = [begin](std::span<const AddrRange> ranges) {
        return std::any_of(ranges.begin(), ranges.end(), [begin](const AddrRange& each) {
            return each.begin == begin && !each.empty();
        });
    };
    return is_in({&handler, 1}) || is_in(std::span(regions).first(region_count.load())) ||
           is_in(std::span(agent_code).first(agent_code_count.load())) ||
           is_in(std::span(agent_data).first(agent_data_count.load()));
}

std::shared_ptr<RecoveryRecord> RecoveryRecord::copy_for(std::int32_t child,
                                                         std::uint64_t childs_start_time) const {
    auto copy = RecoveryFile::private_record();
    copy->pid.store(child);
    copy->start_time = childs_start_time;
    copy->is_copy.store(1);
    // Perhaps the child's own.
    copy->borrowed.mask = borrowed.mask;
    copy->borrowed.tid_of_mask.store(borrowed.tid_of_mask.load());
    copy->borrowed.registers = borrowed.registers;
    copy->borrowed.discarded = borrowed.discarded;
    copy->borrowed.code = borrowed.code;
    copy->borrowed.code_bytes = borrowed.code_bytes;
    copy->borrowed.code_byte_count = borrowed.code_byte_count;
    copy->borrowed.result_at = borrowed.result_at;
    copy->borrowed.number = borrowed.number;
    copy->borrowed.tid.store(borrowed.tid.load());
    copy->handler = handler;
    copy->has_way_back.store(has_way_back.load());
    copy->set_target_action(target_action());
    copy->handler_may_be_saved.store(handler_may_be_saved.load());
    copy->handler_in_force.store(handler_in_force.load());
    copy_ranges(regions, region_count, copy->regions, copy->region_count);
    copy_ranges(agent_code, agent_code_count, copy->agent_code, copy->agent_code_count);
    copy_ranges(agent_data, agent_data_count, copy->agent_data, copy->agent_data_count);
    std::copy_n(breakpoints.begin(), breakpoint_count.load(), copy->breakpoints.begin());
    copy->breakpoint_count.store(breakpoint_count.load());
    for (std::size_t i = 0; i < counters.size(); ++i) {
        copy->counters[i].address = counters[i].address;
        copy->counters[i].before = counters[i].before;
        copy->counters[i].step.store(counters[i].step.load());
    }
    return copy;
}

void RecoveryRecord::forget_memory() {
    breakpoint_count.store(0);
    region_count.store(0);
    agent_code_count.store(0);
    agent_data_count.store(0);
    handler_in_force.store(0);
    handler_may_be_saved.store(0);
    set_handler({});
    for (Counter& counter : counters) {
        if (counter.step.load() != Counter::Step::unused) { // it lies in many pages
            counter.step.store(Counter::Step::unused);
        }
    }
    for (BlockingThread& entry : blocking) {
        if (entry.tid == 0) {
            break;
        }
        entry.tid = 0;
    }
}

void RecoveryRecord::set_blocking(Tid tid, std::uint64_t mask, bool unblocked) {
    // Entries have no holes: the first unused one ends them.
    for (BlockingThread& entry : blocking) {
        if (entry.tid == 0 || entry.tid == tid.value()) {
            entry.mask = mask;
            entry.unblocked = unblocked ? 1 : 0;
            std::atomic_ref(entry.tid).store(tid.value(), std::memory_order_release);
            return;
        }
    }
}

void RecoveryRecord::forget_blocking(Tid tid) {
    const auto end = std::find_if(blocking.begin(), blocking.end(),
                                  [](const BlockingThread& entry) { return entry.tid == 0; });
    const auto it = std::find_if(blocking.begin(), end, [tid](const BlockingThread& entry) {
        return entry.tid == tid.value();
    });
    if (it != end) {
        *it = *(end - 1);
        (end - 1)->tid = 0;
    }
}

void RecoveryRecord::owe(Tid tid, const siginfo_t& info) {
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) == 0) {
            entry.info = info;
            entry.tid.store(tid.value(), std::memory_order_release);
            ++owed_count;
            return;
        }
    }
}

// In place, so that each is there all the time, whenever we die.
void RecoveryRecord::replace_owed(Tid tid, std::span<const siginfo_t> signals) {
    auto next = signals.begin();
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) != tid.value()) {
            continue;
        }
        if (next != signals.end()) {
            entry.info = *next++;
        } else {
            entry.tid.store(0, std::memory_order_release);
            --owed_count;
        }
    }
    for (; next != signals.end(); ++next) {
        owe(tid, *next);
    }
}

void RecoveryRecord::settle_owed(Tid tid, int signal) {
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) == tid.value() &&
            (signal == 0 || entry.info.si_signo == signal)) {
            entry.tid.store(0, std::memory_order_release);
            --owed_count;
            if (signal != 0) {
                return;
            }
        }
    }
}

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

std::shared_ptr<RecoveryRecord> RecoveryFile::map(std::size_t index) {
    void* at = mmap(nullptr, kRecordBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                    static_cast<off_t>(in_pages(sizeof(Header)) + index * kRecordBytes));
    if (at == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return {static_cast<RecoveryRecord*>(at),
            [](RecoveryRecord* record) { munmap(record, kRecordBytes); }};
}

std::shared_ptr<RecoveryRecord> RecoveryFile::claim() {
    for (std::size_t i = 0; i < kMaxProcesses; ++i) {
        if (header_->taken[i].exchange(1) != 0) {
            continue;
        }
        if (header_->claimed.load() <= i) {
            header_->claimed.store(static_cast<std::uint32_t>(i + 1));
        }
        const auto mapped = map(i);
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

std::vector<std::shared_ptr<RecoveryRecord>> RecoveryFile::in_use() {
    std::vector<std::shared_ptr<RecoveryRecord>> result;
    for (std::size_t i = 0; i < header_->claimed.load(); ++i) {
        auto record = map(i);
        if (record->pid.load() != 0) {
            result.push_back(std::move(record));
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

std::shared_ptr<RecoveryRecord> RecoveryFile::private_record() {
    void* at = mmap(nullptr, kRecordBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return {static_cast<RecoveryRecord*>(at),
            [](RecoveryRecord* record) { munmap(record, kRecordBytes); }};
}

} // namespace memleax
