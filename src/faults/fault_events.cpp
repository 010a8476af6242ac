// SPDX-License-Identifier: GPL-3.0-or-later
#include "fault_events.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <fstream>

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/spare_descriptors.hpp"
#include "perf_record.hpp"

namespace memleax {

namespace {

/// In bytes, of each stack. A sample has all of it, so the kernel copies and we read as much for
/// each fault; what lies further out is not known.
constexpr std::uint32_t kStackBytes = 8192;
/// In bytes, of one CPU: 2,000 samples. Read every 4 ms (RingReader), it holds 5 * 10^5 faults a
/// second; at 10^4 it would hold what comes in 200 ms.
constexpr std::size_t kLargestRing = std::size_t{16} << 20;
/// Of all CPUs and all processes, as long as each ring has kSmallestRing: the kernel takes this
/// memory at once, and does not swap it.
constexpr std::size_t kAllRings = std::size_t{128} << 20;
constexpr std::size_t kSmallestRing = std::size_t{1} << 20;
/// Who may lock little memory has to do with less; with so much at least.
constexpr std::size_t kLeastRing = std::size_t{64} << 10;

/// Of those that there are.
std::atomic<std::size_t> ring_bytes{0};

/// Half of what is left.
std::size_t ring_size_for(long cpus) {
    const std::size_t left = kAllRings - std::min(kAllRings, ring_bytes.load());
    std::size_t size = kLargestRing;
    while (size > kSmallestRing && size * static_cast<std::size_t>(cpus) > left / 2) {
        size /= 2;
    }
    return size;
}

std::string paranoid_text() {
    std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
    int value = 0;
    return file >> value ? fmt::format("; it is {} now", value) : "";
}

Error explain(int errnum, Tid tid) {
    Error error(
        fmt::format("page faults of thread {} cannot be sampled (perf_event_open)", tid.value()),
        errnum);
    switch (errnum) {
    case EACCES:
    case EPERM:
        return std::move(error).with_advice(
            fmt::format("run memleax as root or with CAP_PERFMON, or set sysctl "
                        "kernel.perf_event_paranoid to 2 or less{}; in a container its seccomp "
                        "profile may forbid it",
                        paranoid_text()));
    case EMFILE:
    case ENFILE:
        return std::move(error).with_advice(
            "two events for each thread and CPU are needed: raise the limit of open files "
            "(ulimit -n), or leave out --track faults");
    case ENOSYS:
    case ENOENT:
    case EOPNOTSUPP:
        return std::move(error).with_advice("this kernel is built without CONFIG_PERF_EVENTS, or "
                                            "has no page-fault events");
    default:
        return error;
    }
}

perf_event_attr attributes(std::uint64_t config) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = config;
    attr.sample_period = 1;
    attr.sample_type = kSampleType;
    attr.sample_regs_user = arch::kPerfRegisterMask;
    attr.sample_stack_user = kStackBytes;
    attr.sample_id_all = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.inherit = 1;
    attr.exclude_hv = 1;
    // We come by ourselves: nobody is to be woken for each sample.
    attr.watermark = 1;
    attr.wakeup_watermark = INT_MAX;
    if (config == PERF_COUNT_SW_PAGE_FAULTS_MIN) { // one of the two tells of mappings
        attr.mmap = 1;
        attr.mmap2 = 1;
        attr.mmap_data = 1;
    }
    return attr;
}

int perf_event_open(perf_event_attr* attr, Tid tid, int cpu) {
    return static_cast<int>(
        syscall(SYS_perf_event_open, attr, tid.value(), cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

std::uint64_t sum(const std::vector<int>& events) {
    std::uint64_t all = 0;
    for (const int fd : events) {
        std::uint64_t count = 0;
        all += read(fd, &count, sizeof count) == sizeof count ? count : 0;
    }
    return all;
}

} // namespace

FaultEvents::~FaultEvents() {
    for (const PerfRing& ring : rings_) {
        ring_bytes -= ring.size();
    }
    for (const auto* events : {&minor_events_, &major_events_}) {
        for (const int fd : *events) {
            close(fd);
        }
    }
}

Result<FaultEvents> FaultEvents::open(const std::vector<Tid>& threads) {
    const long cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (std::size_t ring_size = ring_size_for(cpus);; ring_size /= 2) {
        FaultEvents events;
        auto opened = events.open_all(cpus, threads, ring_size);
        if (opened) {
            return events;
        }
        // The same for each CPU: what one takes another one lacks.
        if (!events.has_no_ring_ || ring_size <= kLeastRing) {
            return std::move(opened).error();
        }
    }
}

Result<void> FaultEvents::open_all(long cpus, const std::vector<Tid>& threads,
                                   std::size_t ring_size) {
    for (int cpu = 0; cpu < cpus; ++cpu) {
        if (auto opened = open_on(cpu, threads, ring_size); !opened) {
            return opened;
        }
    }
    return {};
}

Result<void> FaultEvents::open_on(int cpu, const std::vector<Tid>& threads, std::size_t ring_size) {
    std::optional<int> ring_owner;
    for (const Tid tid : threads) {
        for (const bool is_major : {false, true}) {
            auto fd = open_one(
                is_major ? PERF_COUNT_SW_PAGE_FAULTS_MAJ : PERF_COUNT_SW_PAGE_FAULTS_MIN, tid, cpu);
            if (!fd && fd.error().errnum() == ENODEV) {
                return {}; // this CPU is offline
            }
            if (!fd && fd.error().errnum() == ESRCH) {
                break; // the thread has ended
            }
            if (!fd) {
                return std::move(fd).error();
            }
            (is_major ? major_events_ : minor_events_).push_back(*fd);
            if (auto sent = send_to_ring(*fd, ring_size, &ring_owner); !sent) {
                return sent;
            }
            std::uint64_t id = 0;
            if (is_major && ioctl(*fd, PERF_EVENT_IOC_ID, &id) == 0) {
                major_.insert(id);
            }
        }
    }
    return {};
}

Result<int> FaultEvents::open_one(std::uint64_t config, Tid tid, int cpu) {
    for (;;) {
        perf_event_attr attr = attributes(config);
        attr.exclude_kernel = how_.user_only ? 1 : 0;
        attr.inherit_thread = how_.threads_only ? 1 : 0;
        const int fd = perf_event_open(&attr, tid, cpu);
        const int errnum = fd < 0 ? errno : is_spare_descriptor(fd) ? EMFILE : 0;
        if (errnum == 0) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
        if ((errnum == EACCES || errnum == EPERM) && !how_.user_only) {
            how_.user_only = true;
        } else if (errnum == EINVAL && how_.threads_only) {
            how_.threads_only = false;
        } else {
            return explain(errnum, tid);
        }
    }
}

Result<void> FaultEvents::send_to_ring(int fd, std::size_t ring_size,
                                       std::optional<int>* ring_owner) {
    if (*ring_owner) {
        return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, **ring_owner) == 0
                   ? Result<void>()
                   : Error("cannot send page faults to a common buffer", errno);
    }
    auto ring = PerfRing::map(fd, ring_size);
    if (!ring) {
        has_no_ring_ = true;
        return std::move(ring).error();
    }
    ring_bytes += ring->size();
    rings_.push_back(*std::move(ring));
    *ring_owner = fd;
    return {};
}

std::optional<FaultCounts> FaultEvents::read_counts() const {
    if (!how_.threads_only) {
        return std::nullopt;
    }
    return FaultCounts{.minor = sum(minor_events_), .major = sum(major_events_), .lost = 0};
}

} // namespace memleax
