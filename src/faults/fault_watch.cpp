// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/faults/fault_watch.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "fault_events.hpp"
#include "huge_pages.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/process_info.hpp"
#include "perf_record.hpp"
#include "ring_reader.hpp"
#include "touched_memory.hpp"

namespace memleax {

namespace {

/// Between two looks at the kernel's counters, which are two system calls for each thread and CPU.
constexpr std::int64_t kCountEveryNs = 100'000'000;
/// Also without faults: who keeps something until they are told, waits for no longer.
constexpr std::int64_t kTellEveryNs = 100'000'000;
/// So many at once: rather sooner than later again.
constexpr std::size_t kMany = 200;

/// In bytes, of room for records: what a burst has needed is given back.
constexpr std::size_t kMostKept = std::size_t{32} << 20;

bool is_any(const std::vector<AddrRange>& ranges, std::uint64_t address) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [address](const AddrRange& range) { return range.contains(address); });
}

} // namespace

struct FaultWatch::Impl {
  public:
    Impl(Tid pid, FaultEvents&& events, bool keeps_pages)
        : events_(std::move(events)), pid_(pid), keeps_pages_(keeps_pages),
          reader_(events_.rings()) {
        on_exec();
    }

    [[nodiscard]] bool any();
    bool tell(const Means& means, bool is_last);
    void on_exec();

  private:
    void look_at_maps();
    [[nodiscard]] bool is_counting_due(bool is_last) const;
    void tell_records(MonotonicNs until, const Means& means);
    void tell_fault(const FaultSample& sample, const Means& means);
    void tell_faults(const Means& means);
    TouchedMemory::Place find(const FaultSample& sample, RemoteAddr sp, const Means& means);
    void count(const std::optional<FaultCounts>& counted, const Means& means);

    FaultEvents events_;
    Tid pid_;
    bool keeps_pages_;
    TouchedMemory touched_;
    std::optional<HugePages> huge_pages_; ///< if `keeps_pages_`
    bool has_looked_again_ = false;       ///< at the maps, in this turn
    UnwoundStack stack_;
    RecordBatch batch_;
    std::vector<PageFault> faults_; ///< not told yet; they refer to touched_
    FaultCounts seen_;              ///< in samples and records
    FaultCounts told_;
    std::uint64_t counted_at_seen_ = 0;
    MonotonicNs counted_at_{};
    MonotonicNs told_until_{};
    RingReader reader_; ///< goes before the rings
};

Result<std::unique_ptr<FaultWatch>> FaultWatch::begin(Tid pid, const std::vector<Tid>& threads,
                                                      bool keeps_pages) {
    auto events = FaultEvents::open(threads);
    if (!events) {
        return std::move(events).error();
    }
    return std::unique_ptr<FaultWatch>(
        new FaultWatch(std::make_unique<Impl>(pid, *std::move(events), keeps_pages)));
}

FaultWatch::FaultWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FaultWatch::~FaultWatch() = default;

bool FaultWatch::any() {
    return impl_->any();
}

bool FaultWatch::tell(const Means& means) {
    return impl_->tell(means, false);
}

void FaultWatch::tell_last(const Means& means) {
    impl_->tell(means, true);
}

void FaultWatch::on_exec() {
    impl_->on_exec();
}

void FaultWatch::Impl::on_exec() {
    look_at_maps();
    if (keeps_pages_) {
        huge_pages_.emplace(pid_);
    }
}

void FaultWatch::Impl::look_at_maps() {
    if (const auto mappings = read_maps(pid_)) {
        const auto info = try_read_process_info(living_thread(pid_));
        touched_.set(*mappings, info ? info->heap_begin : RemoteAddr());
    }
}

bool FaultWatch::Impl::any() {
    return !batch_.records.empty() || is_counting_due(false) || reader_.any() ||
           monotonic_now().value() - told_until_.value() >= kTellEveryNs;
}

bool FaultWatch::Impl::is_counting_due(bool is_last) const {
    return is_last || (seen_.all() + seen_.lost != counted_at_seen_ &&
                       monotonic_now().value() - counted_at_.value() >= kCountEveryNs);
}

bool FaultWatch::Impl::tell(const Means& means, bool is_last) {
    // Counted before the rings are read: then all that was counted has been seen, or is lost.
    const bool counts = is_counting_due(is_last);
    const std::optional<FaultCounts> counted = counts ? events_.read_counts() : std::nullopt;
    const MonotonicNs now = monotonic_now();
    reader_.take(&batch_);
    const bool is_busy = batch_.records.size() >= kMany;
    // What other CPUs write while we read some of the rings waits for what belongs before it.
    tell_records(now, means);
    // One that was being written just then comes the next time.
    means.account.events.on_faults_told(std::exchange(told_until_, now));
    if (counts) {
        counted_at_ = now;
        counted_at_seen_ = seen_.all() + seen_.lost;
        count(counted, means);
    }
    return is_busy;
}

void FaultWatch::Impl::tell_records(MonotonicNs until, const Means& means) {
    has_looked_again_ = false;
    if (huge_pages_) {
        huge_pages_->forget();
    }
    auto& records = batch_.records;
    std::stable_sort(records.begin(), records.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
    const auto end = std::find_if(records.begin(), records.end(),
                                  [until](const auto& record) { return record.time > until; });
    const std::span<const std::byte> bytes(batch_.bytes);
    for (auto record = records.begin(); record != end; ++record) {
        const auto parsed = parse_perf_record(bytes.subspan(record->at, record->size));
        if (!parsed) {
            continue;
        }
        if (const auto* sample = std::get_if<FaultSample>(&*parsed)) {
            if (sample->pid == pid_) {
                tell_fault(*sample, means);
            }
        } else if (const auto* mapped = std::get_if<MappedSample>(&*parsed)) {
            if (mapped->pid == pid_) {
                tell_faults(means); // they refer to what is there now
                touched_.add(mapped->range, mapped->offset, mapped->path, mapped->is_accessible);
            }
        } else if (const auto* lost = std::get_if<LostSamples>(&*parsed)) {
            seen_.lost += lost->count;
        }
    }
    tell_faults(means);
    // What is left moves to the begin.
    records.erase(records.begin(), end);
    std::vector<std::byte> left;
    for (auto& record : records) {
        const auto its_bytes = bytes.subspan(record.at, record.size);
        record.at = left.size();
        left.insert(left.end(), its_bytes.begin(), its_bytes.end());
    }
    batch_.bytes.clear();
    if (!left.empty() || batch_.bytes.capacity() > kMostKept) {
        batch_.bytes = std::move(left);
    } // else it keeps its room
}

TouchedMemory::Place FaultWatch::Impl::find(const FaultSample& sample, RemoteAddr sp,
                                            const Means& means) {
    const bool is_ours =
        is_any(means.own, sample.address.value()) ||
        (sample.registers && is_any(means.own, arch::pc(*sample.registers).value()));
    if (is_ours) {
        return {TouchedKind::own, {}, {}};
    }
    TouchedMemory::Place place = touched_.find(sample.address, sp);
    // mremap(2) moves mappings without a word.
    if (place.kind == TouchedKind::unknown && !std::exchange(has_looked_again_, true)) {
        tell_faults(means);
        look_at_maps();
        place = touched_.find(sample.address, sp);
    }
    return place;
}

void FaultWatch::Impl::tell_fault(const FaultSample& sample, const Means& means) {
    PageFault fault;
    fault.address = sample.address;
    fault.time = sample.time;
    fault.major = events_.is_major(sample.event);
    (fault.major ? seen_.major : seen_.minor) += 1;
    const TouchedMemory::Place place =
        find(sample, sample.registers ? arch::sp(*sample.registers) : RemoteAddr(), means);
    fault.kind = place.kind;
    fault.file = place.file;
    fault.offset = place.offset;
    if (huge_pages_ && place.kind != TouchedKind::file && !fault.major) {
        fault.huge = huge_pages_->at(fault.address);
    }
    if (fault.kind != TouchedKind::own) {
        stack_.frames.clear();
        stack_.end = StackEnd::bad_memory;
        if (sample.registers) {
            means.unwinder.unwind_copy(*sample.registers, sample.stack, means.backtrace_limit,
                                       &stack_);
        }
        fault.stack = means.account.stacks.intern(stack_.frames, stack_.end);
    }
    faults_.push_back(fault);
}

void FaultWatch::Impl::tell_faults(const Means& means) {
    if (!faults_.empty()) {
        means.account.events.on_page_faults(faults_);
        faults_.clear();
    }
}

void FaultWatch::Impl::count(const std::optional<FaultCounts>& counted, const Means& means) {
    FaultCounts all = seen_; // where the kernel does not tell
    if (counted) {
        all.minor = std::max(all.minor, counted->minor);
        all.major = std::max(all.major, counted->major);
        // Better than the records of loss: those count other records, too, and of the last ones
        // that are lost there is none, as the next record would bring it.
        const std::uint64_t missing =
            counted->all() > seen_.all() ? counted->all() - seen_.all() : 0;
        all.lost = std::max(missing, told_.lost);
    } else {
        all.minor += all.lost; // most are
    }
    means.account.events.on_fault_counts({.minor = all.minor - told_.minor,
                                          .major = all.major - told_.major,
                                          .lost = all.lost - told_.lost,
                                          .user_only = events_.is_user_only()});
    told_ = all;
}

} // namespace memleax
