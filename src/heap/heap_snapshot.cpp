// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/heap_snapshot.hpp"

#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include <poll.h>

#include "heap_moment.hpp"
#include "heap_reader.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/thrown_text.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/remote_memory.hpp"
#include "stopped_process.hpp"
#include "tracked_look.hpp"
#include "watched_heap.hpp"

namespace memleax {

namespace {

/// Walks whose books do not agree, and looks that find a thread at work in an arena: the latter are
/// short.
constexpr int kMostWalks = 2;
constexpr int kMostLooks = 6;

template <class Once> Result<HeapSnapshot> look_until_complete(Once&& look_once) {
    HeapSnapshot last;
    int walks = 0;
    for (int looks = 0; looks < kMostLooks && walks < kMostWalks; ++looks) {
        Result<HeapLook> look = look_once();
        if (!look) {
            if (look.error().errnum() != EAGAIN) {
                return std::move(look).error();
            }
            last.why = look.error().reason(); // EAGAIN is for us
        } else if (look->snapshot.complete || !look->snapshot.unlisted.empty()) {
            return std::move(look->snapshot);
        } else {
            walks += look->was_busy ? 0 : 1;
            last = std::move(look->snapshot);
        }
        log_debug("snapshot {}: {}", looks + 1, last.why);
        // At another moment of what the process does, which may be at regular times.
        poll(nullptr, 0, 1 + looks % 7);
    }
    last.graph = {};
    return last;
}

/// The process runs on.
HeapLook look_at_copy(HeapMoment moment, const HeapOptions& options) {
    StoredMemory memory = *std::move(moment.memory);
    return HeapReader::look_at(std::move(moment), memory, options);
}

void fork_only_if(bool is_guarded, RoomForCopy* room) {
    if (room->forks() && !is_guarded) {
        room->do_not_fork(Error("nobody would end the copy, should memleax be killed"));
    }
}

/// For as long as a process is changed by this thread. Nobody is asked if there is no caretaker.
class Duty {
  public:
    explicit Duty(Caretaker* caretaker)
        : caretaker_(caretaker), records_(caretaker != nullptr ? caretaker->take_duty() : nullptr) {
    }
    ~Duty() {
        if (records_ != nullptr) {
            caretaker_->leave_duty();
        }
    }
    Duty(const Duty&) = delete;
    Duty& operator=(const Duty&) = delete;

    [[nodiscard]] RecoveryFile* records() const { return records_; }

  private:
    Caretaker* caretaker_;
    RecoveryFile* records_;
};

/// One that nobody watches.
class UnwatchedHeap {
  public:
    UnwatchedHeap(Tid pid, RemoteMemory memory, const HeapOptions& options)
        : pid_(pid), memory_(std::move(memory)), modules_(pid, memory_), options_(options),
          room_(options) {}

    /// What has to be known before anybody is stopped.
    Result<void> prepare() {
        auto changes = modules_.refresh();
        if (!changes) {
            return std::move(changes).error();
        }
        auto reader = HeapReader::make(modules_);
        if (!reader) {
            return std::move(reader).error().with_advice(
                "memleax -t SECONDS --leak-check PID classes what is allocated meanwhile");
        }
        reader_ = *std::move(reader);
        return {};
    }

    /// A thread that cannot be stopped stays seized until the tracer's end.
    Result<HeapLook> look_in_thread_of_its_own() {
        std::optional<Result<HeapLook>> result;
        std::thread([&] {
            try {
                result.emplace(look());
            } catch (const std::exception& broken) {
                result.emplace(Error(thrown_text(broken)));
            }
        }).join();
        return *std::move(result);
    }

  private:
    Result<HeapLook> look() {
        if (auto prepared = prepare(); !prepared) { // a module may have come
            return std::move(prepared).error();
        }
        room_.prepare(pid_);
        const Duty duty(room_.forks() ? options_.caretaker : nullptr);
        fork_only_if(duty.records() != nullptr, &room_);
        auto stopped = StoppedProcess::stop(pid_, duty.records());
        if (!stopped) {
            return std::move(stopped).error();
        }
        auto moment = reader_->take(**stopped, {}, &room_);
        if (!moment) {
            return std::move(moment).error();
        }
        if (moment->memory) {
            const std::int64_t pause = (*stopped)->let_go();
            const bool forked = moment->forked != nullptr;
            if (forked) {
                auto whole = room_.complete(&*moment);
                (*stopped)->end_copy();
                if (!whole) {
                    return std::move(whole).error();
                }
            }
            HeapLook look = look_at_copy(*std::move(moment), options_);
            look.snapshot.pause_ns = pause;
            look.snapshot.forked = forked;
            return look;
        }
        HeapLook look =
            HeapReader::look_at(*std::move(moment), (*stopped)->target().memory(), options_);
        look.snapshot.pause_ns = (*stopped)->let_go();
        return look;
    }

    Tid pid_;
    RemoteMemory memory_;
    ModuleMap modules_;
    HeapOptions options_;
    RoomForCopy room_;
    std::optional<HeapReader> reader_;
};

HeapLook unlisted(const Error& why) {
    HeapLook look;
    look.snapshot.unlisted = why.message();
    return look;
}

/// What a request has taken becomes whole, while the process runs on.
Result<void> complete(Result<HeapMoment>* moment, WatchedCopy* copy, RoomForCopy* room) {
    if (!*moment || (*moment)->forked == nullptr) {
        return {};
    }
    copy->set((*moment)->forked->copy());
    auto whole = room->complete(&**moment);
    copy->end();
    return whole;
}

Result<HeapLook> look_at_watched(const PerformRequest& perform, const HeapOptions& options,
                                 RoomForCopy* room) {
    std::optional<Result<HeapReader>> reader;
    Generation read_for = 0;
    const auto make_reader = [&](const ModuleMap& modules) {
        reader.emplace(HeapReader::make(modules));
        read_for = modules.generation();
    };
    Tid pid;
    bool is_guarded = false;
    auto prepared = perform(TargetState::as_it_is, [&](TargetInHand& hand) {
        make_reader(hand.modules);
        pid = hand.target.pid();
        is_guarded = hand.target.is_guarded();
    });
    if (!prepared) {
        return std::move(prepared).error();
    }
    if (!*reader) {
        return unlisted((*reader).error());
    }
    room->prepare(pid);
    fork_only_if(is_guarded, room);
    WatchedCopy copy(perform, room->forks());
    std::optional<Result<HeapMoment>> moment;
    std::optional<HeapLook> look;
    std::int64_t pause_ns = 0;
    auto done = perform(TargetState::all_stopped, [&](TargetInHand& hand) {
        if (hand.modules.generation() != read_for) { // it takes milliseconds: not for nothing
            make_reader(hand.modules);
        }
        if (!*reader) {
            look = unlisted((*reader).error());
            return;
        }
        WatchedHeap process(hand);
        moment.emplace((*reader)->take(process, hand.own_memory, room));
        if (*moment && !(*moment)->memory) {
            look = HeapReader::look_at(**std::move(moment), hand.target.memory(), options);
        }
        pause_ns = monotonic_now().value() - hand.since.value();
    });
    if (!done) {
        return std::move(done).error();
    }
    if (moment && !*moment) {
        return std::move(*moment).error();
    }
    if (!look) {
        const bool forked = (*moment)->forked != nullptr;
        if (auto whole = complete(&*moment, &copy, room); !whole) {
            return std::move(whole).error();
        }
        look = look_at_copy(**std::move(moment), options);
        look->snapshot.forked = forked;
    }
    look->snapshot.pause_ns = pause_ns;
    return *std::move(look);
}

Result<HeapLook> look_at_tracked_blocks(const PerformRequest& perform, const HeapBlocks& blocks,
                                        const HeapOptions& options, RoomForCopy* room) {
    Tid pid;
    bool is_guarded = false;
    std::optional<KnownLibraries> libraries;
    auto prepared = perform(TargetState::as_it_is, [&](TargetInHand& hand) {
        libraries.emplace(hand.modules);
        pid = hand.target.pid();
        is_guarded = hand.target.is_guarded();
    });
    if (!prepared) {
        return std::move(prepared).error();
    }
    room->prepare(pid);
    fork_only_if(is_guarded, room);
    WatchedCopy copy(perform, room->forks());
    std::optional<Result<HeapMoment>> moment;
    HeapLook look;
    std::int64_t pause_ns = 0;
    auto done = perform(TargetState::all_stopped, [&](TargetInHand& hand) {
        WatchedHeap process(hand);
        moment.emplace(take_tracked_moment(process, hand.modules, hand.own_memory, room));
        if (*moment && !(*moment)->memory) {
            look.snapshot = look_at_tracked(**std::move(moment), hand.target.memory(), blocks,
                                            *libraries, options);
        }
        pause_ns = monotonic_now().value() - hand.since.value();
    });
    if (!done) {
        return std::move(done).error();
    }
    if (!*moment) {
        return std::move(*moment).error();
    }
    if (!look.snapshot.complete) {
        const bool forked = (*moment)->forked != nullptr;
        if (auto whole = complete(&*moment, &copy, room); !whole) {
            return std::move(whole).error();
        }
        StoredMemory memory = *std::move((**moment).memory);
        look.snapshot = look_at_tracked(**std::move(moment), memory, blocks, *libraries, options);
        look.snapshot.forked = forked;
    }
    look.snapshot.pause_ns = pause_ns;
    return look;
}

} // namespace

Result<HeapSnapshot> take_heap_snapshot(Tid pid, const HeapOptions& options) {
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return explain_seize_failure(pid, memory.error().errnum());
    }
    UnwatchedHeap heap(pid, *std::move(memory), options);
    if (auto prepared = heap.prepare(); !prepared) {
        return std::move(prepared).error();
    }
    return look_until_complete([&heap] { return heap.look_in_thread_of_its_own(); });
}

Result<HeapSnapshot> take_heap_snapshot(const PerformRequest& perform, const HeapOptions& options) {
    RoomForCopy room(options);
    return look_until_complete([&] { return look_at_watched(perform, options, &room); });
}

Result<HeapSnapshot> take_tracked_snapshot(const PerformRequest& perform, HeapBlocks blocks,
                                           const HeapOptions& options) {
    RoomForCopy room(options);
    return look_until_complete(
        [&] { return look_at_tracked_blocks(perform, blocks, options, &room); });
}

} // namespace memleax
