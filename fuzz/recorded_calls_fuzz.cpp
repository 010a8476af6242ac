// SPDX-License-Identifier: GPL-3.0-or-later
// The inline engine's consumer: rings, counters and tickets are memory of the target's, which may
// write anything there at any time. What is made of it goes on to the account.
#include <array>
#include <utility>

#include "agent_threads.hpp"
#include "fuzz_support.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/track/tracker.hpp"

using namespace memleax;

namespace {

using agent::Entry;
using agent::Progress;

/// Gives what the input says, a part of it such that it gets further.
class HostileRings final : public AgentThreadsMemory {
  public:
    explicit HostileRings(fuzz::Input& input) : input_(input) {}

    Result<void> make_room_for(std::uint32_t index, Tid /*worker*/) override {
        return index < 300 ? Result<void>() : Error("no more");
    }
    [[nodiscard]] std::uint32_t ring_entries(std::uint32_t index) const override {
        return index < agent::kWideThreads ? agent::kRingEntries : agent::kNarrowRingEntries;
    }
    void write_thread(std::uint32_t index, const agent::Thread& thread,
                      const Progress& progress) override {
        FUZZ_CHECK(thread.pointer != 0 && index < agent::kMaxThreads);
        heads_.resize(std::max<std::size_t>(heads_.size(), index + 1));
        heads_[index] = progress.head;
    }
    void write_thread_slot(std::uint32_t slot, std::uint16_t /*value*/) override {
        FUZZ_CHECK(slot < agent::kThreadSlots);
    }
    void set_ready(std::uint32_t index, bool /*ready*/) override { check(index); }
    void set_trap(std::uint32_t index, bool /*trap*/) override { check(index); }
    void set_stack(std::uint32_t index, AddrRange /*stack*/) override { check(index); }
    void set_inside(std::uint32_t index, std::uint64_t /*inside*/) override { check(index); }
    void set_interrupted(std::uint32_t index, bool /*interrupted*/) override { check(index); }
    void set_claimed_parts(std::uint32_t index, std::uint8_t /*parts*/) override { check(index); }
    void set_freed_parts(std::uint32_t index, std::uint8_t /*parts*/) override { check(index); }
    void set_tick(std::uint8_t /*tick*/) override {}

    [[nodiscard]] bool read_next_ticket(std::uint64_t* ticket) const override {
        const auto kind = input_.number<std::uint8_t>();
        next_ticket_ = kind < 250 ? next_ticket_ + kind : input_.number<std::uint64_t>();
        *ticket = next_ticket_;
        return kind != 249;
    }
    [[nodiscard]] bool read_progress(std::uint32_t first,
                                     std::span<Progress> progress) const override {
        for (std::size_t i = 0; i < progress.size(); ++i) {
            std::uint64_t& head = heads_.at(first + i);
            const auto kind = input_.number<std::uint8_t>();
            if (kind == 255) {
                progress[i] = input_.number<Progress>();
            } else {
                progress[i].head = head + kind;
                progress[i].calls += kind;
            }
            head = progress[i].head;
        }
        return true;
    }
    [[nodiscard]] bool read_entries(std::uint32_t thread, std::uint64_t /*first*/,
                                    std::span<Entry> entries) const override {
        FUZZ_CHECK(entries.size() <= ring_entries(thread));
        for (Entry& entry : entries) {
            entry = input_.number<Entry>();
            if ((entry.tick & 3) != 0) { // few addresses, and a ticket near the others
                entry.ticket = next_ticket_ - entry.ticket % 64;
                entry.address = 0x1000 + entry.address % 64 * 16;
                entry.size_or_caller %= 1U << 20;
                entry.function %= 5;
                entry.stack %= 4;
                entry.kind = static_cast<Entry::Kind>(static_cast<unsigned>(entry.kind) % 8);
            }
        }
        return true;
    }

  private:
    void check(std::uint32_t index) const { FUZZ_CHECK(index < heads_.size()); }

    fuzz::Input& input_;
    mutable std::vector<std::uint64_t> heads_; ///< of the rings
    mutable std::uint64_t next_ticket_ = 0;
};

/// One module, and no memory.
class Nowhere final : public CallEnvironment, public MemoryReader {
    MemoryReader& memory() override { return *this; }
    std::size_t try_read(RemoteAddr /*from*/, std::span<std::byte> /*out*/) override { return 0; }
    bool in_same_module(CodeAddr /*a*/, CodeAddr /*b*/) override { return false; }
    bool in_main_module(CodeAddr code) override { return (code.value() & 1) != 0; }
    bool makes_exception(CodeAddr code) override { return (code.value() & 2) != 0; }
    bool frees_cached_blocks(CodeAddr code) override { return (code.value() & 4) != 0; }
    void before_pages_go() override {}
    std::optional<RemoteAddr> find_variable(CodeAddr /*code*/, const char* /*name*/) override {
        return std::nullopt;
    }
    AddrRange mapping_at(RemoteAddr /*begin*/) override { return {}; }
    bool in_new_heap(RemoteAddr address, MonotonicNs /*now*/) override {
        return (address.value() & 16) != 0;
    }
};

/// What is told by a thread of the tracer's, with stacks and functions that there are.
void check_calls(std::span<const RecordedCall> calls, int functions, StackId last) {
    for (const RecordedCall& call : calls) {
        FUZZ_CHECK(call.function >= 0 && call.function < functions);
        FUZZ_CHECK(call.stack == kNoStack || call.stack.value() <= last.value());
        FUZZ_CHECK(call.age >= 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    FollowOptions follow;
    follow.check = (input.number<std::uint8_t>() & 1) != 0;
    Tracker tracker(Tracker::Options{.memory_block_max = 20, .check = follow.check});
    Nowhere nowhere;
    static const auto api = std::make_shared<AllocatorApi>();
    CallFollower follower(nowhere, AccountAccess{tracker, tracker, tracker}, api, follow);
    int functions = 0;
    for (const char* name : {"malloc", "free", "realloc", "_Znwm", "_ZdlPv"}) {
        const AllocatorFunction* function = api->find(name);
        FUZZ_CHECK(function != nullptr);
        functions =
            1 + follower.add_function(
                    {.function = function, .address = CodeAddr(0x9000), .by = function->by});
    }
    HostileRings rings(input);
    AgentThreads threads(rings);
    threads.set_functions(functions);
    StackId last = kNoStack;
    for (std::uint64_t pc = 1; pc < 4; ++pc) {
        last = tracker.intern(std::array{FrameAddress::exact(CodeAddr(pc))}, StackEnd::outermost);
        threads.add_stack(last);
    }
    std::int64_t now = 1;
    while (!input.empty()) {
        const auto what = input.number<std::uint8_t>();
        const auto number = input.number<std::uint8_t>();
        const Tid tid(1 + number % 8);
        now += std::int64_t{number} * 1'000'000;
        switch (what % 8) {
        case 0:
            (void)threads.get(tid, std::uint64_t{number} % 16 * 64, AddrRange{});
            break;
        case 1:
            threads.on_birth(tid, std::uint64_t{number} % 16 * 64);
            break;
        case 2:
            threads.on_thread_gone(tid);
            break;
        case 3:
            threads.tick(MonotonicNs(now));
            break;
        case 4:
            if (const auto index = threads.find(tid); index && threads.now(*index).inside != 0) {
                if (const auto left = threads.leave_call(*index, MonotonicNs(now))) {
                    check_calls({&*left, 1}, functions, last);
                    follower.on_recorded({&*left, 1});
                }
            }
            break;
        default:
            threads.fetch();
            const auto& calls = threads.take();
            check_calls(calls, functions, last);
            follower.on_recorded(calls);
            if (threads.delivered_until().value() != 0) {
                tracker.on_watermark(threads.delivered_until());
            }
            break;
        }
    }
    threads.forget();
    tracker.on_watermark(kAllDelivered);
    // A realloc of a block that is not known begins one.
    const EventCounts& events = tracker.events();
    FUZZ_CHECK(events.free <= events.alloc + events.realloc);
    return 0;
}
