// SPDX-License-Identifier: GPL-3.0-or-later
#include "stop_cost.hpp"

#include <array>
#include <optional>
#include <span>

#include <sys/uio.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"

namespace memleax {

namespace {

/// Of an array of struct iovec; nothing if it is longer than those of most programs.
std::optional<std::uint64_t> bytes_in_vector(const RemoteMemory& memory, RemoteAddr array,
                                             std::uint64_t count) {
    constexpr std::size_t kMost = 64;
    std::array<iovec, kMost> vector{};
    if (count > kMost) {
        return std::nullopt;
    }
    const auto bytes = std::as_writable_bytes(std::span(vector).first(count));
    if (memory.try_read_unmasked(array, bytes) != bytes.size()) {
        return std::nullopt;
    }
    std::uint64_t sum = 0;
    for (const iovec& part : std::span(vector).first(count)) {
        sum += part.iov_len;
    }
    return sum;
}

StopEffect effect_of_stop_in(Tid tid, const KernelState& kernel, const RemoteMemory& memory) {
    const CallDetails details{.kind_of = [tid](int fd) { return kind_of_descriptor(tid, fd); },
                              .bytes_of =
                                  [&memory](RemoteAddr array, std::uint64_t count) {
                                      return bytes_in_vector(memory, array, count);
                                  }};
    return effect_of_stop(*kernel.system_call, kernel.arguments, details);
}

} // namespace

StopCost stop_cost(Tid pid, Tid tid, const RemoteMemory& memory) {
    const auto kernel = try_read_kernel_state(pid, tid);
    if (!kernel || kernel->has_ended()) {
        return StopCost::gone;
    }
    switch (kernel->state) {
    case 'D': // in a transfer it waits so for its peer, who has the pipe's lock
        return kernel->system_call &&
                       effect_of_stop_in(tid, *kernel, memory) == StopEffect::cut_short
                   ? StopCost::cut_short
                   : StopCost::uninterruptible;
    case 'T':
    case 't':
        return StopCost::nothing; // it is stopped
    case 'S':
        break;
    default: // it may have woken up in the midst of its call
        return kernel->system_call &&
                       effect_of_stop_in(tid, *kernel, memory) == StopEffect::cut_short
                   ? StopCost::cut_short
                   : StopCost::runs;
    }
    if (!kernel->system_call) {
        // "running" was read before it fell asleep; or it waits for a page.
        return kernel->pc.value() == 0 ? StopCost::runs : StopCost::nothing;
    }
    switch (effect_of_stop_in(tid, *kernel, memory)) {
    case StopEffect::unnoticed:
        return StopCost::nothing;
    case StopEffect::begun_again:
        return StopCost::begins_again;
    case StopEffect::limit_anew:
        return StopCost::limit_anew;
    case StopEffect::cut_short:
        return StopCost::cut_short;
    case StopEffect::may_fail:
        break;
    }
    return StopCost::may_fail;
}

} // namespace memleax
