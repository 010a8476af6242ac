// SPDX-License-Identifier: GPL-3.0-or-later
#include "agent_pages.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kWritable = PROT_READ | PROT_WRITE;

/// Those that are mapped.
template <std::size_t N>
std::vector<AddrRange> used(const std::array<AddrRange, N>& ranges,
                            const std::atomic<std::uint32_t>& count) {
    std::vector<AddrRange> result;
    for (const AddrRange range : std::span(ranges).first(count.load())) {
        if (range.size() != 0) {
            result.push_back(range);
        }
    }
    return result;
}

} // namespace

bool disable_agent(const RecoveryRecord& record, RemoteMemory& memory) {
    const AddrRange& first = record.agent_data[0];
    if (record.agent_data_count.load() == 0 || first.size() == 0) {
        return false;
    }
    const RemoteAddr at = first.start() + static_cast<std::int64_t>(offsetof(agent::Data, enabled));
    const auto enabled = memory.try_read_object<std::uint8_t>(at);
    constexpr std::uint8_t kNo = 0;
    // Anything but 0 and 1 is not the agent's, but of what has come in its place.
    return enabled == kNo || (enabled == 1 && memory.write(at, {&kNo, 1}).ok());
}

std::vector<AddrRange> AgentPages::ranges() const {
    return used(target_.record().agent_code, target_.record().agent_code_count);
}

std::vector<AddrRange> AgentPages::data_ranges() const {
    return used(target_.record().agent_data, target_.record().agent_data_count);
}

bool AgentPages::contains(CodeAddr pc) const {
    const RecoveryRecord& record = target_.record(); // without a copy: it is asked often
    const auto code = std::span(record.agent_code).first(record.agent_code_count.load());
    return std::any_of(code.begin(), code.end(),
                       [pc](const AddrRange& range) { return range.contains(pc.value()); });
}

std::optional<RemoteAddr> AgentPages::agent_data() const {
    const AddrRange& first = target_.record().agent_data[0];
    return target_.record().agent_data_count.load() != 0 && first.size() != 0
               ? std::optional(RemoteAddr(first.begin))
               : std::nullopt;
}

std::vector<AgentPages::Inside> AgentPages::threads_inside() const {
    std::vector<Inside> result;
    const auto data = agent_data();
    if (!data) {
        return result;
    }
    constexpr std::uint32_t kAtOnce = 32;
    std::array<agent::Thread, kAtOnce> threads;
    std::array<agent::Progress, kAtOnce> progress;
    const auto read = [&](std::size_t offset, auto& into) {
        return target_.memory().try_read_unmasked(*data + static_cast<std::int64_t>(offset),
                                                  std::as_writable_bytes(std::span(into))) ==
               sizeof into;
    };
    for (std::uint32_t first = 0; first < agent::kMaxThreads; first += kAtOnce) {
        if (!read(offsetof(agent::Data, threads) + first * sizeof threads[0], threads) ||
            !read(offsetof(agent::Data, progress) + first * sizeof progress[0], progress)) {
            break;
        }
        for (std::uint32_t i = 0; i < kAtOnce; ++i) {
            if (threads[i].tid == 0) {
                return result; // they have no holes
            }
            if (progress[i].inside != 0) {
                result.push_back({Tid(threads[i].tid),
                                  first + i,
                                  {threads[i].stack_begin, threads[i].stack_end},
                                  progress[i].inside});
            }
        }
    }
    return result;
}

bool AgentPages::has_frame(std::uint32_t index, std::uint64_t inside) const {
    const auto data = agent_data();
    const RemoteAddr frame(inside - arch::kAgentBehindFrame - sizeof(agent::Frame) +
                           offsetof(agent::Frame, progress));
    const std::size_t progress = offsetof(agent::Data, progress) + index * sizeof(agent::Progress);
    return data &&
           target_.memory().try_read_object<std::uint64_t>(frame) == data->value() + progress;
}

// A call that was left by siglongjmp has no frame any more, once its stack is shorter. On another
// stack (a handler's, a coroutine's) that cannot be told.
bool AgentPages::will_be_back(Tid tid, RemoteAddr sp) const {
    const auto threads = threads_inside();
    return std::any_of(threads.begin(), threads.end(), [&](const Inside& thread) {
        return thread.tid == tid && !thread.is_further_in(sp);
    });
}

// A handler's alternate stack may be further out in the same memory; or nobody has overwritten yet
// what is left of the call's frame.
bool AgentPages::may_be_back(Tid tid, RemoteAddr sp) const {
    const auto threads = threads_inside();
    return std::any_of(threads.begin(), threads.end(), [&](const Inside& thread) {
        return thread.tid == tid && thread.is_further_in(sp) && has_frame(thread.index, thread.sp);
    });
}

std::set<Tid> AgentPages::inside() const {
    std::set<Tid> result;
    for (const Inside& thread : threads_inside()) {
        result.insert(thread.tid);
    }
    return result;
}

void AgentPages::disable() {
    (void)disable_agent(target_.record(), target_.memory());
}

Result<long> AgentPages::call(const char* name, Tid worker, long number,
                              std::initializer_list<std::uint64_t> arguments) {
    auto result = target_.system_call(worker, number, arguments);
    if (result && is_errno(*result)) {
        return Error(fmt::format("{} in process {}", name, target_.pid().value()),
                     static_cast<int>(-*result));
    }
    return result;
}

// A forked child, which nobody watches yet, finds zeros there.
Result<AddrRange> AgentPages::map_data(std::uint64_t bytes, Rights rights, Tid worker) {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t length = (bytes + kPage - 1) / kPage * kPage;
    // If all that a process maps is locked (mlockall(2), MCL_FUTURE), and our handler's page was,
    // the kernel gives it memory for all of this, unless nobody may touch it.
    const auto info = try_read_process_info(worker);
    const bool is_locked = info && info->locked_bytes != 0;
    const std::uint64_t wanted = rights == Rights::write ? kWritable : PROT_READ;
    auto mapped = call("mmap", worker, SYS_mmap,
                       {0, length, is_locked ? PROT_NONE : wanted,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ULL, 0});
    if (!mapped) {
        return std::move(mapped).error();
    }
    const auto begin = static_cast<std::uint64_t>(*mapped);
    const AddrRange range{begin, begin + length};
    const bool noted = target_.record().add_agent_data(range);
    target_.record().borrowed.mapped.store(0);
    MEMLEAX_ASSERT(noted); // there are as many as kMaxThreads needs
    auto done = call("madvise(MADV_WIPEONFORK), which is there since Linux 4.14,", worker,
                     SYS_madvise, {begin, length, MADV_WIPEONFORK});
    // Where the kernel makes huge pages of all ("always"), the tables' first words would take 2 MiB
    // each. A kernel without huge pages refuses.
    if (done) {
        (void)target_.system_call(worker, SYS_madvise, {begin, length, MADV_NOHUGEPAGE});
    }
    if (done && is_locked) {
        done = call("munlock", worker, SYS_munlock, {begin, length});
    }
    if (done && is_locked) {
        done = call("mprotect", worker, SYS_mprotect, {begin, length, wanted});
    }
    if (!done) {
        return std::move(done).error();
    }
    return range;
}

Result<void> AgentPages::make_writable(AddrRange range, Tid worker) {
    auto made = call("mprotect", worker, SYS_mprotect, {range.begin, range.size(), kWritable});
    return made ? Result<void>() : std::move(made).error();
}

Result<void> AgentPages::unmap(Tid worker) {
    if (before_unmapping_) {
        before_unmapping_();
    }
    std::vector<AddrRange> all = ranges();
    const std::vector<AddrRange> with_data = data_ranges();
    all.insert(all.end(), with_data.begin(), with_data.end());
    for (const AddrRange range : all) {
        if (auto done = call("munmap", worker, SYS_munmap, {range.begin, range.size()}); !done) {
            return std::move(done).error();
        }
    }
    target_.record().agent_code_count.store(0);
    target_.record().agent_data_count.store(0);
    return {};
}

} // namespace memleax
