// SPDX-License-Identifier: GPL-3.0-or-later
// What the inline engine's agent has recorded, in memory that the target can write: tickets, the
// threads' progress and their rings, read at several moments. The accounts may be wrong, and a
// thread may be given up; nothing else.
#include <map>

#include "../src/engine/inline/agent_threads.hpp"
#include "fuzz_support.hpp"
#include "memleax/base/log.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/track/tracker.hpp"

using namespace memleax;

namespace {

constexpr std::uint32_t kThreads = agent::kWideThreads + 2; // the last ones are narrow

/// Each read is answered by what comes next in the input.
class HostileMemory final : public AgentThreadsMemory {
  public:
    explicit HostileMemory(fuzz::Input& input) : input_(input) {}

    Result<void> make_room_for(std::uint32_t index, Tid /*worker*/) override {
        FUZZ_CHECK(index < agent::kMaxThreads);
        return {};
    }
    void write_thread(std::uint32_t index, agent::Thread /*thread*/,
                      const agent::Progress& progress) override {
        heads_[index] = progress.head;
    }
    void write_thread_slot(std::uint32_t slot, std::uint16_t value) override {
        FUZZ_CHECK(slot < agent::kThreadSlots);
        FUZZ_CHECK(value <= agent::kMaxThreads || value == agent::kNoThread);
    }
    void set_ready(std::uint32_t index, bool /*ready*/) override { check(index); }
    void set_trap(std::uint32_t index, bool /*trap*/) override { check(index); }
    void set_stack(std::uint32_t index, AddrRange /*stack*/) override { check(index); }
    void set_inside(std::uint32_t index, std::uint64_t /*inside*/) override { check(index); }
    void set_interrupted(std::uint32_t index, bool /*interrupted*/) override { check(index); }
    void set_claimed_parts(std::uint32_t index, std::uint8_t /*parts*/) override { check(index); }
    void set_freed_parts(std::uint32_t index, std::uint8_t /*parts*/) override { check(index); }
    void set_tick(std::uint8_t /*tick*/) override {}
    bool read_next_ticket(std::uint64_t* ticket) const override {
        *ticket = number();
        return !input_.empty();
    }
    bool read_progress(std::span<agent::Progress> progress) const override {
        for (std::size_t i = 0; i < progress.size(); ++i) {
            const auto kind = input_.number<std::uint8_t>();
            std::uint64_t& head = heads_[static_cast<std::uint32_t>(i)];
            head = kind % 8 == 0 ? input_.number<std::uint64_t>() : head + kind % 16;
            progress[i].head = head;
            progress[i].inside = input_.number<std::uint8_t>();
            progress[i].calls = kind;
        }
        return !input_.empty();
    }
    bool read_entries(std::uint32_t thread, std::uint64_t /*first*/,
                      std::span<agent::Entry> entries) const override {
        check(thread);
        FUZZ_CHECK(entries.size() <= ring_entries(thread));
        for (agent::Entry& entry : entries) {
            entry.ticket = number();
            entry.address = 0x5000 + input_.number<std::uint8_t>() % 32 * std::uint64_t{16};
            entry.size_or_caller = number();
            entry.stack = input_.number<std::uint8_t>() % 16 == 15 ? agent::kNoStackId
                                                                   : input_.number<std::uint8_t>();
            entry.function = input_.number<std::uint8_t>() % 8;
            entry.kind = static_cast<agent::Entry::Kind>(input_.number<std::uint8_t>() %
                                                         (agent::kKinds + 1));
            entry.tick = input_.number<std::uint8_t>();
            entry.end_tick = input_.number<std::uint8_t>();
        }
        return !input_.empty();
    }

  private:
    static void check(std::uint32_t index) { FUZZ_CHECK(index < kThreads); }
    /// Mostly the next one, or one that is near.
    [[nodiscard]] std::uint64_t number() const {
        const auto kind = input_.number<std::uint8_t>();
        next_ = kind >= 0xf0 ? input_.number<std::uint64_t>() : next_ + kind % 4;
        return kind % 32 == 31 ? next_ - kind : next_;
    }

    fuzz::Input& input_;
    mutable std::map<std::uint32_t, std::uint64_t> heads_;
    mutable std::uint64_t next_ = 0;
};

class Environment final : public CallEnvironment, public MemoryReader {
  public:
    MemoryReader& memory() override { return *this; }
    std::size_t try_read(RemoteAddr /*from*/, std::span<std::byte> /*out*/) override { return 0; }
    bool in_same_module(CodeAddr a, CodeAddr b) override { return a.value() / 2 == b.value() / 2; }
    bool in_main_module(CodeAddr /*code*/) override { return false; }
    bool makes_exception(CodeAddr /*code*/) override { return false; }
    bool frees_cached_blocks(CodeAddr /*code*/) override { return false; }
    std::optional<RemoteAddr> find_variable(CodeAddr /*code*/, const char* /*name*/) override {
        return std::nullopt;
    }
    AddrRange mapping_at(RemoteAddr /*begin*/) override { return {}; }
    bool in_new_heap(RemoteAddr /*address*/, MonotonicNs /*now*/) override { return false; }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    set_log_level(LogLevel::error);
    fuzz::Input input(data, size);
    HostileMemory memory(input);
    AgentThreads threads(memory);
    Environment environment;
    const bool checks = input.number<std::uint8_t>() % 2 != 0;
    Tracker::Options options;
    options.check = checks;
    options.expire_ns = 1000;
    Tracker tracker(options);
    static const auto api = std::make_shared<const AllocatorApi>();
    CallFollower follower(environment, {tracker, tracker, tracker}, api, {.check = checks});
    for (const char* name : {"malloc", "free", "realloc", "calloc", "posix_memalign"}) {
        AllocatorEntry entry;
        entry.function = api->find(name);
        entry.address = CodeAddr(0x1000 + follower.functions().size() * 16);
        entry.by = entry.function->by;
        (void)follower.add_function(entry);
    }
    threads.set_functions(static_cast<int>(follower.functions().size()));
    for (std::uint32_t stack = 0; stack < 8; ++stack) {
        const FrameAddress frames[] = {FrameAddress::exact(CodeAddr(0x1000)),
                                       FrameAddress::return_address(CodeAddr(0x2000 + stack))};
        threads.add_stack(tracker.intern(frames, StackEnd::outermost));
    }
    for (std::uint32_t i = 0; i < kThreads; ++i) {
        FUZZ_CHECK(threads.get(Tid(static_cast<int>(i + 1)), 0x7000 + i, {}).has_value());
    }
    std::int64_t now = 1;
    while (!input.empty()) {
        const auto step = input.number<std::uint8_t>();
        const std::uint32_t index = step / 8 % kThreads;
        const Tid tid(static_cast<int>(index + 1));
        now += 1'000'000 * (1 + step % 4);
        switch (step % 8) {
        case 0:
            if (const auto left = threads.find(tid) ? threads.leave_call(index, MonotonicNs(now))
                                                    : std::nullopt) {
                follower.on_recorded({&*left, 1});
            }
            break;
        case 1:
            threads.on_thread_gone(tid);
            break;
        case 2:
            (void)threads.get(tid, 0x7000 + index, {});
            break;
        case 3:
            threads.on_birth(Tid(9999), 0x7000 + index);
            break;
        default:
            threads.tick(MonotonicNs(now));
            threads.fetch();
            follower.on_recorded(threads.take());
            tracker.on_watermark(threads.told_until());
            (void)tracker.expire(MonotonicNs(now), 256);
            break;
        }
    }
    FUZZ_CHECK(threads.calls() <= UINT64_MAX / 2);
    return 0;
}
