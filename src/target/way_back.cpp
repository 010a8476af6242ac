// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/way_back.hpp"

#include <limits>
#include <span>
#include <string>

#include "memleax/proc/mapping_query.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

namespace {

/// No result of a system call: neither an address nor an error.
constexpr std::int64_t kNoResult = std::numeric_limits<std::int64_t>::min();

/// What a frame has besides the registers.
struct Rest {
    std::uint64_t mask;
    std::vector<std::byte> vectors;
    DiscardedRegisters discarded;
};
std::optional<Rest> read_rest(Tid tid) {
    const StoppedThread thread(tid);
    const auto mask = thread.signal_mask();
    // A shadow stack would have to know of the frame.
    if (!mask || thread.has_shadow_stack()) {
        return std::nullopt;
    }
    std::optional<Rest> result(Rest{*mask, thread.vector_registers(), {}});
    thread.get_discarded(&result->discarded);
    return result;
}

std::vector<std::uint8_t> frame_of(const arch::Registers& own, const Rest& rest, RemoteAddr at) {
    const auto discarded = std::span(rest.discarded.bytes).first(rest.discarded.size);
    return arch::return_frame(own, rest.mask, rest.vectors, at, {rest.discarded.set, discarded});
}

struct NamedRange {
    AddrRange range;
    std::string name;
};
/// The list may be long, and a program may fork again and again.
std::optional<NamedRange> mapping_at(Tid tid, RemoteAddr address) {
    std::string name;
    if (const auto asked = MappingQuery(tid).covering(address, &name)) {
        return NamedRange{*asked, std::move(name)};
    }
    const auto all = read_maps(tid);
    for (const Mapping& each : all ? *all : std::vector<Mapping>()) {
        if (each.range.contains(address.value())) {
            return NamedRange{each.range, each.path};
        }
    }
    return std::nullopt;
}

/// On the stack that the kernel, or pthread_create, has given the thread (its thread pointer lies
/// at the top of that): what is below it is nobody else's.
bool is_on_own_stack(Tid tid, const arch::Registers& own, AddrRange range) {
    const RemoteAddr sp = arch::sp(own);
    const auto stack = mapping_at(tid, sp);
    if (!stack || range.begin < stack->range.begin) {
        return false;
    }
    const std::uint64_t thread_pointer = StoppedThread(tid).thread_pointer(own);
    return stack->name == "[stack]" ||
           (stack->range.contains(thread_pointer) && thread_pointer > sp.value());
}

} // namespace

std::optional<WayBack> WayBack::in_page(RemoteMemory& memory, Tid tid, const arch::Registers& own,
                                        RemoteAddr page) {
    WayBack result(memory);
    result.result_at_ = page + arch::kWayBackDataAt;
    const RemoteAddr at = result.result_at_ + arch::kReturnFrameAt;
    const auto writable = memory.try_read_object<std::uint8_t>(
        result.result_at_ + static_cast<std::int64_t>(arch::kWritableAt));
    const auto rest = writable.value_or(0) != 0 ? read_rest(tid) : std::nullopt;
    if (!rest) {
        return std::nullopt;
    }
    const std::vector<std::uint8_t> frame = frame_of(own, *rest, at);
    if (frame.empty() || frame.size() > arch::kWayBackDataBytes - arch::kReturnFrameAt ||
        !memory.write_object(result.result_at_, kNoResult) || !memory.write(at, frame)) {
        return std::nullopt;
    }
    return result;
}

RemoteAddr WayBack::argument_place(const arch::Registers& own) {
    constexpr std::uint64_t kAlignment = 16;
    return RemoteAddr((arch::sp(own) - arch::kRedZone - kArgumentBytes).value() &
                      ~(kAlignment - 1));
}

// The frame's size does not depend on where it is.
std::optional<WayBack> WayBack::below_stack(RemoteMemory& memory, Tid tid,
                                            const arch::Registers& own) {
    constexpr std::uint64_t kAlignment = 64;
    const auto rest = read_rest(tid);
    if (!rest) {
        return std::nullopt;
    }
    const std::size_t size = frame_of(own, *rest, RemoteAddr()).size();
    WayBack result(memory);
    result.frame_ = RemoteAddr((argument_place(own).value() - size) & ~(kAlignment - 1));
    const std::vector<std::uint8_t> frame = frame_of(own, *rest, result.frame_);
    result.before_.resize(frame.size());
    const auto before = std::as_writable_bytes(std::span(result.before_));
    if (frame.empty() || !is_on_own_stack(tid, own, AddrRange::at(result.frame_, frame.size())) ||
        memory.try_read(result.frame_, before) != before.size() ||
        !memory.write(result.frame_, frame)) {
        return std::nullopt;
    }
    return result;
}

void WayBack::give_back_memory() {
    if (!before_.empty()) {
        (void)memory_->write(frame_, before_);
    }
}

void WayBack::set_stack_pointer(arch::Registers& regs) const {
    if (!before_.empty()) {
        arch::set_sp(regs, frame_);
    }
}

std::optional<long> WayBack::result(RemoteMemory& memory, RemoteAddr at) {
    std::int64_t value = kNoResult;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    return memory.try_read(at, bytes) == bytes.size() && value != kNoResult ? std::optional(value)
                                                                            : std::nullopt;
}

} // namespace memleax
