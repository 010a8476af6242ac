// SPDX-License-Identifier: GPL-3.0-or-later
#include "agent_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/target/near_mapping.hpp"

// The section that the agent's pieces are in (GNU ld: "if a section's name is a C identifier").
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's.
extern "C" {
extern const std::uint8_t __start_memleax_agent[] __attribute__((weak, visibility("hidden")));
extern const std::uint8_t __stop_memleax_agent[] __attribute__((weak, visibility("hidden")));
// In agent_stub.S: where the agent is entered, and where a call of the original function returns.
extern const std::uint8_t memleax_agent_stub[] __attribute__((visibility("hidden")));
extern const std::uint8_t memleax_agent_return_place[] __attribute__((visibility("hidden")));
}
// NOLINTEND(bugprone-reserved-identifier)

namespace memleax {

namespace {

using agent::Data;
using agent::Progress;
using agent::Thread;
using agent::WideThreads;

/// The agent and its stub, which are linked into one section (and the agent at all, as it is named
/// here).
std::span<const std::uint8_t> agent_code() {
    const auto* enter = reinterpret_cast<const std::uint8_t*>(&agent::memleax_agent_enter);
    MEMLEAX_ASSERT(enter >= __start_memleax_agent && enter < __stop_memleax_agent);
    return {__start_memleax_agent, __stop_memleax_agent};
}

static_assert(RecoveryRecord::kMaxAgentData >= 2 + agent::kMostNarrow);

constexpr const char* kRecords = "records of calls";

} // namespace

Result<void> AgentMemory::find_room(bool checks) {
    const std::uint64_t table = checks ? sizeof(agent::LiveTable) : 0;
    if (auto has_addresses = check_address_room(target_.pid(), sizeof(Data) + table, kRecords);
        !has_addresses) {
        return has_addresses;
    }
    const auto for_all = room_.check(sizeof(Data) + table, kRecords);
    is_narrow_ = !for_all;
    if (for_all) {
        return {};
    }
    log_debug("its threads get small rings: {}", for_all.error().message());
    // Threads, and some ten thousand call stacks: of the table of children each takes a page.
    constexpr std::uint64_t kStackBytes = 8 << 20;
    constexpr std::uint64_t kThreadBytes = sizeof(agent::NarrowThreads) / agent::kNarrowThreads;
    return room_.check(kStackBytes + target_.threads().size() * kThreadBytes + table, kRecords);
}

bool AgentMemory::is_wide(std::uint32_t index) const {
    return index < agent::kWideThreads && !is_narrow_;
}

std::uint32_t AgentMemory::ring_entries(std::uint32_t index) const {
    return is_wide(index) ? agent::kRingEntries : agent::kNarrowRingEntries;
}

Result<void> AgentMemory::map(Tid worker, bool checks) {
    if (auto room = find_room(checks); !room) {
        return room;
    }
    using Rights = AgentPages::Rights;
    auto data = pages_.map_data(sizeof(Data), Rights::read, worker);
    if (!data) {
        return std::move(data).error();
    }
    const AddrRange written{data->begin + offsetof(Data, next_ticket),
                            data->begin + offsetof(Data, wide) + sizeof(WideThreads)};
    if (auto made = pages_.make_writable(written, worker); !made) {
        return made;
    }
    writable_ = 1;
    if (checks) {
        auto live = pages_.map_data(sizeof(agent::LiveTable), Rights::write, worker);
        if (!live) {
            return std::move(live).error();
        }
        live_table_ = RemoteAddr(live->begin);
        write_object(at(offsetof(Data, live)), live->begin);
    }
    if (const AddrRange handler = target_.record().handler; !handler.empty()) {
        write_object(at(offsetof(Data, unattended)),
                     handler.begin + arch::kWayBackDataAt + arch::kUnattendedAt);
        write_object(at(offsetof(Data, may_pass)), std::uint8_t{1});
    }
    begin_epoch();
    return {};
}

// Indices are given in their order, and given again.
Result<void> AgentMemory::make_room_for(std::uint32_t index, Tid worker) {
    if (!mapped()) {
        return Error("there is no memory for them");
    }
    if (index < agent::kWideThreads) {
        for (; writable_ <= index / WideThreads::kThreads; ++writable_) {
            const std::uint64_t begin =
                at(offsetof(Data, wide)).value() + writable_ * sizeof(WideThreads);
            if (auto made = pages_.make_writable({begin, begin + sizeof(WideThreads)}, worker);
                !made) {
                return made;
            }
        }
        return {};
    }
    if ((index - agent::kWideThreads) / agent::kNarrowThreads < narrow_.size()) {
        return {};
    }
    if (narrow_.size() == agent::kMostNarrow) {
        return Error("there are too many");
    }
    if (auto has_addresses =
            check_address_room(target_.pid(), sizeof(agent::NarrowThreads), kRecords);
        !has_addresses) {
        return has_addresses;
    }
    auto range = pages_.map_data(sizeof(agent::NarrowThreads), AgentPages::Rights::write, worker);
    if (!range) {
        return std::move(range).error();
    }
    narrow_.emplace_back(range->begin);
    return {};
}

template <class Shares>
AgentMemory::Place AgentMemory::place_in(RemoteAddr shares, std::size_t number) {
    const auto offset = [&](std::size_t member, std::size_t bytes) {
        return static_cast<std::int64_t>(member + number * bytes);
    };
    return {shares + offset(offsetof(Shares, rings), sizeof Shares::rings[0]),
            shares + offset(offsetof(Shares, memos), sizeof Shares::memos[0])};
}

AgentMemory::Place AgentMemory::place_of(std::uint32_t index) const {
    if (index < agent::kWideThreads) {
        const std::size_t piece = index / WideThreads::kThreads;
        return place_in<WideThreads>(at(offsetof(Data, wide) + piece * sizeof(WideThreads)),
                                     index % WideThreads::kThreads);
    }
    const std::uint32_t behind = index - agent::kWideThreads;
    return place_in<agent::NarrowThreads>(narrow_[behind / agent::kNarrowThreads],
                                          behind % agent::kNarrowThreads);
}

Result<AgentMemory::Piece*> AgentMemory::piece_near(CodeAddr entry, Tid worker) {
    for (Piece& piece : pieces_) {
        if (within_reach(piece.range, entry) &&
            piece.used + arch::kThunkBytes <= piece.range.size()) {
            return &piece;
        }
    }
    auto range = map_code_near(target_, entry, worker);
    if (!range) {
        return std::move(range).error();
    }
    const bool noted = target_.record().add_agent_code(*range);
    target_.record().borrowed.mapped.store(0);
    if (!noted) {
        (void)target_.system_call(worker, SYS_munmap, {range->begin, range->size()});
        return Error("the code that is watched lies too far apart");
    }
    const auto code = agent_code();
    if (auto written = target_.memory().write(RemoteAddr(range->begin), code); !written) {
        return std::move(written).error();
    }
    const std::uint64_t used = (code.size() + arch::kThunkBytes - 1) / arch::kThunkBytes;
    pieces_.push_back({*range, used * arch::kThunkBytes});
    return_places_.emplace_back(
        range->begin + static_cast<std::uint64_t>(memleax_agent_return_place - code.data()));
    return &pieces_.back();
}

Result<AgentMemory::Thunk> AgentMemory::add_function(CodeAddr entry, CodeAddr original,
                                                     agent::Function function, Tid worker) {
    auto piece = piece_near(entry, worker);
    if (!piece) {
        return std::move(piece).error();
    }
    const CodeAddr thunk = (*piece)->next();
    const CodeAddr stub((*piece)->range.begin +
                        static_cast<std::uint64_t>(memleax_agent_stub - agent_code().data()));
    function.data = pages_.agent_data()->value();
    function.original = original.value();
    function.called = function.called != 0 ? function.called : function.original;
    function.trap = thunk.value() + arch::kThunkTrapExitAt;
    function.pass = thunk.value() + arch::kThunkPassExitAt;
    std::array<std::uint8_t, arch::kThunkBytes> bytes{};
    const auto code = arch::thunk_code(thunk, stub, original);
    std::copy(code.begin(), code.end(), bytes.begin());
    static_assert(arch::kThunkFunctionAt + sizeof function <= arch::kThunkBytes);
    std::memcpy(&bytes[arch::kThunkFunctionAt], &function, sizeof function);
    return write_thunk(**piece, bytes);
}

Result<AgentMemory::Thunk> AgentMemory::write_thunk(Piece& piece,
                                                    std::span<const std::uint8_t> bytes) {
    const CodeAddr thunk = piece.next();
    if (auto written = target_.memory().write(thunk.as_data(), bytes); !written) {
        return std::move(written).error();
    }
    piece.used += arch::kThunkBytes;
    return Thunk{thunk, CodeAddr(thunk.value() + arch::kThunkTrapAt)};
}

Result<AgentMemory::Thunk> AgentMemory::add_gate(CodeAddr entry, CodeAddr original, Tid worker) {
    auto piece = piece_near(entry, worker);
    return piece ? write_thunk(**piece, arch::gate_code((*piece)->next(), original))
                 : std::move(piece).error();
}

void AgentMemory::set_gate_handler(CodeAddr gate, std::uint64_t handler) {
    write_object(gate.as_data() + std::int64_t{arch::kGateHandlerAt}, handler);
}

void AgentMemory::set_gate_answers(CodeAddr gate, bool answers) {
    write_object(gate.as_data() + std::int64_t{arch::kGateAnswersAt},
                 static_cast<std::uint8_t>(answers));
}

RemoteAddr AgentMemory::at(std::size_t offset) const {
    return pages_.agent_data().value_or(RemoteAddr()) + static_cast<std::int64_t>(offset);
}

RemoteAddr AgentMemory::thread_at(std::uint32_t index, std::size_t offset) const {
    return at(offsetof(Data, threads) + index * sizeof(Thread) + offset);
}

RemoteAddr AgentMemory::progress_at(std::uint32_t index, std::size_t offset) const {
    return at(offsetof(Data, progress) + index * sizeof(Progress) + offset);
}

// It may have ended meanwhile, which is told elsewhere.
void AgentMemory::write(RemoteAddr at, std::span<const std::uint8_t> bytes) {
    if (!mapped()) {
        return;
    }
    if (const auto written = target_.memory().write(at, bytes); !written) {
        log_debug("{}", written.error().message());
    }
}

void AgentMemory::enable() {
    write_object(at(offsetof(Data, enabled)), std::uint8_t{1});
}
void AgentMemory::set_pointer_from(arch::ThreadPointerFrom from) {
    write_object(at(offsetof(Data, pointer_from)), static_cast<std::uint8_t>(from));
}
// Not the pointer, which threads that run may be reading: they could see half of it.
void AgentMemory::forget_unattended() {
    write_object(at(offsetof(Data, may_pass)), std::uint8_t{0});
}
void AgentMemory::set_tick(std::uint8_t tick) {
    write_object(at(offsetof(Data, tick)), tick);
}
void AgentMemory::write_thread(std::uint32_t index, const Thread& thread,
                               const Progress& progress) {
    const Place place = place_of(index);
    Thread written = thread;
    written.ring = place.ring.value();
    written.memos = place.memos.value();
    written.ring_parts = static_cast<std::uint8_t>(ring_entries(index) / agent::kRingPart);
    written.memo_count = is_wide(index) ? agent::kMemos : agent::kNarrowMemos;
    write_object(progress_at(index, 0), progress);
    write_object(thread_at(index, 0), written);
}
void AgentMemory::set_ready(std::uint32_t index, bool ready) {
    write_object(thread_at(index, offsetof(Thread, ready)), std::uint8_t{ready});
}
void AgentMemory::set_trap(std::uint32_t index, bool trap) {
    write_object(thread_at(index, offsetof(Thread, trap)), std::uint8_t{trap});
}
void AgentMemory::set_interrupted(std::uint32_t index, bool interrupted) {
    write_object(progress_at(index, offsetof(Progress, interrupted)), std::uint8_t{interrupted});
}
void AgentMemory::forget_failure(std::uint32_t index) {
    write_object(progress_at(index, offsetof(Progress, has_failed)), std::uint8_t{0});
}
void AgentMemory::set_claimed_parts(std::uint32_t index, std::uint8_t parts) {
    write_object(thread_at(index, offsetof(Thread, claimed_parts)), parts);
}
void AgentMemory::set_freed_parts(std::uint32_t index, std::uint8_t parts) {
    write_object(thread_at(index, offsetof(Thread, freed_parts)), parts);
}
void AgentMemory::set_forced_stack(std::uint32_t index, std::uint32_t stack) {
    write_object(progress_at(index, offsetof(Progress, forced_stack)), stack);
}
void AgentMemory::set_stack(std::uint32_t index, AddrRange stack) {
    static_assert(offsetof(Thread, stack_end) == offsetof(Thread, stack_begin) + 8);
    write_object(thread_at(index, offsetof(Thread, stack_begin)), stack);
}
void AgentMemory::set_inside(std::uint32_t index, std::uint64_t inside) {
    write_object(progress_at(index, offsetof(Progress, inside)), inside);
}
void AgentMemory::write_thread_slot(std::uint32_t slot, std::uint16_t value) {
    write_object(at(offsetof(Data, thread_slots) + slot * sizeof value), value);
}

void AgentMemory::forget_live(RemoteAddr block) {
    using agent::LiveTable;
    if (live_table_.value() == 0) {
        return;
    }
    const RemoteAddr bucket =
        live_table_ +
        static_cast<std::int64_t>(LiveTable::bucket(block.value()) * sizeof(LiveTable::slots[0]));
    std::array<std::uint64_t, LiveTable::kWays> keys{};
    if (!read(bucket, std::span<std::uint64_t>(keys))) {
        return;
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (((keys.at(i) ^ block.value()) & LiveTable::kAddressBits) == 0) {
            constexpr std::int64_t kKindAt = LiveTable::kKindShift / 8; // little-endian
            write_object(bucket + static_cast<std::int64_t>(i * sizeof keys[0]) + kKindAt,
                         std::uint8_t{0});
        }
    }
}

void AgentMemory::write_node(std::uint32_t index, const agent::Node& node) {
    write_object(at(offsetof(Data, nodes) + index * sizeof node), node);
}
void AgentMemory::write_child(std::uint32_t slot, std::uint32_t node) {
    write_object(at(offsetof(Data, children) + slot * sizeof node), node);
}
void AgentMemory::write_first_child(std::uint32_t parent, std::uint32_t node) {
    write_object(at(offsetof(Data, nodes) + parent * sizeof(agent::Node) +
                    offsetof(agent::Node, first_child)),
                 node);
}
void AgentMemory::clear_children(std::uint32_t first_slot, std::uint32_t count) {
    const std::vector<std::uint8_t> zeros(count * sizeof(Data::children[0]));
    write(at(offsetof(Data, children) + first_slot * sizeof(Data::children[0])), zeros);
}
void AgentMemory::clear_functions() {
    const std::vector<std::uint8_t> zeros((agent::kMaxFunctions + 1) * sizeof(agent::Node));
    write(at(offsetof(Data, nodes)), zeros);
    begin_epoch();
}
// Whoever reads the four bytes meanwhile finds the old epoch, the new one, or none.
void AgentMemory::begin_epoch() {
    const RemoteAddr first = at(offsetof(Data, epoch));
    constexpr std::uint32_t kByte = 256;
    if (++epoch_ % kByte == 0) {
        write_object(first, std::uint8_t{0});
        for (unsigned i = 1; i < sizeof epoch_; ++i) {
            write_object(first + i, static_cast<std::uint8_t>(epoch_ >> (i * 8)));
        }
        ++epoch_;
    }
    write_object(first, static_cast<std::uint8_t>(epoch_));
}

bool AgentMemory::read_next_ticket(std::uint64_t* ticket) const {
    return mapped() && read(at(offsetof(Data, next_ticket)), std::span(ticket, 1));
}
bool AgentMemory::read_progress(std::uint32_t first, std::span<Progress> progress) const {
    return mapped() && read(progress_at(first, 0), progress);
}
bool AgentMemory::read_entries(std::uint32_t thread, std::uint64_t first,
                               std::span<agent::Entry> entries) const {
    const std::uint32_t all = ring_entries(thread);
    MEMLEAX_ASSERT(entries.size() <= all);
    const auto from = static_cast<std::uint32_t>(first % all);
    const std::size_t before_end = std::min<std::size_t>(entries.size(), all - from);
    const RemoteAddr ring = place_of(thread).ring;
    return read(ring + static_cast<std::int64_t>(from * sizeof(agent::Entry)),
                entries.first(before_end)) &&
           (before_end == entries.size() || read(ring, entries.subspan(before_end)));
}

void AgentMemory::forget() {
    epoch_ = 0;
    live_table_ = RemoteAddr();
    narrow_.clear();
    writable_ = 0;
    pieces_.clear();
    return_places_.clear();
}

} // namespace memleax
