// SPDX-License-Identifier: GPL-3.0-or-later
/// Everything that one thread of ours traces: the one place that waits, and hands each stop to the
/// process that it belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/signal_turn.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/stop_queue.hpp"

namespace memleax {

class Target;

/// Whether to poll for a short while before sleeping in waitpid. Where a sleeping CPU is slow to
/// wake (virtual machines) the next stop of a busy thread comes sooner than we would be awake
/// again.
///
/// Without sched_yield(), although the target may need this very CPU: many yields can make the
/// scheduler lose count of who is to run next (Linux commit 1319ea57529e, "Fix zero_vruntime
/// tracking fix"; docs/lessons.md, says what we saw on 6.18).
class SpinPolicy {
  public:
    /// How often to look before going to sleep: 40 to 60 microseconds, 150 with 64 threads. Not at
    /// all with one CPU, which who looks keeps from who is waited for.
    static int polls();

    [[nodiscard]] bool worthwhile() {
        if (pause_ == 0) {
            return true;
        }
        --pause_;
        return false;
    }
    void succeeded() { failures_ = 0; }
    /// After a few polls in vain the stops are far apart: sleep for a number of them.
    void failed() {
        if (++failures_ >= kFailures) {
            failures_ = 0;
            pause_ = kPause;
        }
    }

  private:
    static constexpr int kFailures = 4;
    static constexpr int kPause = 32;
    int failures_ = 0;
    int pause_ = 0;
};

/// Belongs to the tracer thread (ptrace is bound to it), and must outlive its Targets.
class Tracer {
  public:
    /// `records`: where Targets note what they change; null if nobody reads that.
    explicit Tracer(RecoveryFile* records) : records_(records) {}
    Tracer(const Tracer&) = delete;
    Tracer& operator=(const Tracer&) = delete;

    using Stop = TargetStop;
    enum class Wait { poll, block };
    /// The next stop of any Target, or nothing: with `poll` when there is none now, with `block`
    /// when a signal handler of ours ran or nobody is left to wait for.
    std::optional<Stop> next_stop(Wait wait);

    /// Deals with stops for so many ns, as they come; `but`: those of this Target stand in line.
    /// True: whoever waits is to give up.
    using Meanwhile = std::function<bool(const Target* but, std::int64_t ns)>;
    /// For as long as it lives, what is done where somebody waits long for something else than a
    /// stop: nobody is to stand still for that. No stop may be in hand where it begins, as all are
    /// dealt with from within that wait.
    class ServesMeanwhile {
      public:
        ServesMeanwhile(Tracer& tracer, Meanwhile meanwhile)
            : tracer_(tracer), before_(std::exchange(tracer.meanwhile_, std::move(meanwhile))) {}
        ~ServesMeanwhile() { tracer_.meanwhile_ = std::move(before_); }
        ServesMeanwhile(const ServesMeanwhile&) = delete;
        ServesMeanwhile& operator=(const ServesMeanwhile&) = delete;

      private:
        Tracer& tracer_;
        Meanwhile before_;
    };
    /// The next stop that there is now, but not of this Target (null: of any); its own stand in
    /// line.
    std::optional<Stop> next_stop_but_of(const Target* but);

    // For the Targets, which give their threads, and take their own stops out of turn:
    void add(Target& target) { targets_.push_back(&target); }
    void remove(Target& target);
    void own(Tid tid, Target& target) { owners_[tid] = &target; }
    void disown(Tid tid) { owners_.erase(tid); }
    [[nodiscard]] std::shared_ptr<RecoveryRecord> new_record();
    /// What stands in line before anything new.
    [[nodiscard]] StopQueue& queue() { return queue_; }
    [[nodiscard]] const StopQueue& queue() const { return queue_; }
    /// The next stop of this one; those of others wait for their turn.
    std::optional<StopEvent> next_stop_of(Target& target, Wait wait);
    /// The next stop of one thread, or of any (-1), that is new; `flags` of waitid(2). The end or
    /// the exec of a process may have claimed newborns, which are in line and come before it.
    std::optional<Stop> wait_for(Tid which, int flags);
    /// A stop that was waited for out of turn, and that the next wait is not to find again.
    void put_off(const Stop& stop);
    static void consume_stop(Tid tid);
    /// Would somebody put the processes back, should we be killed?
    [[nodiscard]] bool is_guarded() const { return records_ != nullptr; }
    /// Who that is; 0: nobody that is known.
    [[nodiscard]] pid_t guardian() const { return records_ != nullptr ? records_->guardian() : 0; }
    /// A newborn that reported itself before its parent did. False if there was none.
    bool claim_orphan(Tid child, Target& parent);
    /// This one's process executes another program or ends, and will tell of no birth any more.
    void claim_last_orphans(Target& parent, bool ends);
    /// The first of the newborns that this stop has claimed, which goes behind them: the process
    /// still knows what is in the copies. The stop itself if there are none.
    Stop behind_claimed(const Stop& stop);
    [[nodiscard]] bool serves_meanwhile() const { return meanwhile_ != nullptr; }
    /// Where that is so. What is dealt with then may wait in its turn, and serves nobody.
    bool serve_meanwhile(const Target* but, std::int64_t ns);

  private:
    /// A thread that the others go before gets its turn after so long, but after so many stops at
    /// least, for each that waits too, and at most: taking one in order costs three more system
    /// calls.
    static constexpr std::int64_t kNsBetweenBacklogs = 3'000'000;
    static constexpr std::int64_t kFewestStopsBetweenBacklogs = 16;
    static constexpr std::int64_t kMostStopsBetweenBacklogs = 256;
    static constexpr std::int64_t kStopsForEachPutOff = 4;

    /// Is this thread, or who made it, of a process that lives and whose Target is gone? It is
    /// still traced if it slept when that went, and nobody but us can let it go on when it stops.
    [[nodiscard]] bool is_left(Tid tid) const;
    /// Is it a forked copy, and no newborn of a process?
    [[nodiscard]] bool is_copy(Tid tid) const;
    /// Is it a thread of a process that has nothing to do with those that are watched? One that was
    /// seized just when it had executed a program may have made it before it was let go of. No copy
    /// of a memory is a thread.
    [[nodiscard]] bool is_strangers(Tid tid, Tid process) const;
    static void let_go(Tid tid, int status);
    /// All that wait for us now stand in line, so that each gets its turn.
    void collect_backlog();
    /// The same by asking some threads each for itself, the next ones next time.
    void collect_one_by_one();
    void plan_next_backlog();
    static bool can_be_taken(const Stop& stop);
    static bool takes_long(const Stop& stop);
    /// The next stop that does not take long; nothing if none comes soon.
    std::optional<Stop> next_in_signal_turn();
    std::optional<Stop> next_in_order(Wait wait);
    std::optional<Stop> decode(Tid tid, int status);
    /// The end of one that is none of its Targets'.
    std::optional<Stop> decode_end(Tid tid);
    std::optional<Stop> decode_birth(Tid tid, int status);

    RecoveryFile* records_;
    std::vector<Target*> targets_;
    absl::flat_hash_map<Tid, Target*> owners_; ///< of threads and adopted children
    /// When they began, by pid, which may be given anew: processes whose Targets are gone.
    std::map<Tid, std::uint64_t> left_;
    StopQueue queue_;
    Meanwhile meanwhile_;
    Tid last_asked_{}; ///< by collect_one_by_one()
    /// Newborn processes, in their first stop, of which nobody knows yet whose they are, and who
    /// their parent was then.
    std::map<Tid, Tid> orphans_;
    SpinPolicy spin_;
    SignalTurn signal_turn_;
    std::int64_t stops_until_backlog_ = kFewestStopsBetweenBacklogs;
    std::int64_t stops_between_backlogs_ = kFewestStopsBetweenBacklogs; ///< of the present turn
    MonotonicNs last_backlog_ = monotonic_now();
};

} // namespace memleax
