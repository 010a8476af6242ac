// SPDX-License-Identifier: GPL-3.0-or-later
#include "agent_pages.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <sys/syscall.h>

namespace memleax {

namespace {

template <std::size_t N>
std::span<const AddrRange> used(const std::array<AddrRange, N>& ranges,
                                const std::atomic<std::uint32_t>& count) {
    return std::span(ranges).first(count.load());
}

} // namespace

std::vector<AddrRange> AgentPages::ranges() const {
    const auto code = used(target_.record().agent_code, target_.record().agent_code_count);
    return {code.begin(), code.end()};
}

std::vector<AddrRange> AgentPages::data_ranges() const {
    const auto data = used(target_.record().agent_data, target_.record().agent_data_count);
    return {data.begin(), data.end()};
}

bool AgentPages::contains(CodeAddr pc) const {
    const auto code = used(target_.record().agent_code, target_.record().agent_code_count);
    return std::any_of(code.begin(), code.end(),
                       [pc](const AddrRange& range) { return range.contains(pc.value()); });
}

std::optional<RemoteAddr> AgentPages::agent_data() const {
    return target_.record().agent_data_count.load() != 0
               ? std::optional(RemoteAddr(target_.record().agent_data[0].begin))
               : std::nullopt;
}

std::vector<agent::Thread> AgentPages::blocks_inside() const {
    std::vector<agent::Thread> result;
    const auto data = agent_data();
    if (!data) {
        return result;
    }
    constexpr std::uint32_t kAtOnce = 32;
    std::array<agent::Thread, kAtOnce> threads;
    for (std::uint32_t first = 0; first < agent::kMaxThreads; first += kAtOnce) {
        const auto at = *data + static_cast<std::int64_t>(offsetof(agent::Data, threads) +
                                                          first * sizeof(agent::Thread));
        if (target_.memory().try_read_unmasked(at, std::as_writable_bytes(std::span(threads))) !=
            sizeof threads) {
            break;
        }
        for (const agent::Thread& thread : threads) {
            if (thread.tid == 0) {
                return result; // they have no holes
            }
            if (thread.inside != 0) {
                result.push_back(thread);
            }
        }
    }
    return result;
}

// A call that was left by siglongjmp has no frame any more, once its stack is shorter. On another
// stack (a handler's, a coroutine's) that cannot be told.
bool AgentPages::will_be_back(Tid tid, RemoteAddr sp) const {
    const auto blocks = blocks_inside();
    return std::any_of(blocks.begin(), blocks.end(), [&](const agent::Thread& thread) {
        const AddrRange stack{thread.stack_begin, thread.stack_end};
        const bool is_over = stack.contains(thread.inside) && stack.contains(sp.value()) &&
                             sp.value() > thread.inside;
        return thread.tid == tid.value() && !is_over;
    });
}

std::set<Tid> AgentPages::inside() const {
    std::set<Tid> result;
    for (const agent::Thread& thread : blocks_inside()) {
        result.insert(Tid(thread.tid));
    }
    return result;
}

void AgentPages::disable() {
    if (const auto data = agent_data()) {
        const std::uint8_t no = 0;
        (void)target_.memory().write(
            *data + static_cast<std::int64_t>(offsetof(agent::Data, enabled)), {&no, 1});
    }
}

Result<void> AgentPages::unmap(Tid worker) {
    if (before_unmapping_) {
        before_unmapping_();
    }
    std::vector<AddrRange> all = ranges();
    const std::vector<AddrRange> with_data = data_ranges();
    all.insert(all.end(), with_data.begin(), with_data.end());
    for (const AddrRange range : all) {
        auto result = target_.system_call(worker, SYS_munmap, {range.begin, range.size()});
        if (!result) {
            return std::move(result).error();
        }
        if (*result != 0) {
            return Error(
                fmt::format("cannot unmap {:#x} in process {}", range.begin, target_.pid().value()),
                static_cast<int>(-*result));
        }
    }
    target_.record().agent_code_count.store(0);
    target_.record().agent_data_count.store(0);
    return {};
}

} // namespace memleax
