// SPDX-License-Identifier: GPL-3.0-or-later
/// Looks whether a threshold of --at-memory or --at-pressure is passed. Without one it does
/// nothing.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include "memleax/base/types.hpp"
#include "memleax/proc/memory_look.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

/// Of a value that rises and falls: it has passed the threshold once, until it has been 5 % below.
class Crossing {
  public:
    /// Has it been passed just now? Not by the first value, from which it may only fall.
    bool passes(double value, double threshold);
    /// Was the first value beyond it, and has none been below since?
    [[nodiscard]] bool began_beyond() const { return began_beyond_; }

  private:
    std::optional<bool> is_beyond_;
    bool began_beyond_ = false;
};

/// Of events that come in each window while it lasts: it is over after five windows, and ten
/// seconds, without one.
class PressureSpell {
  public:
    explicit PressureSpell(std::int64_t window_us);
    /// Is this event the first one of a spell?
    bool begins(MonotonicNs now);

  private:
    std::int64_t quiet_ns_;
    std::optional<MonotonicNs> last_;
};

class ThresholdWatch {
  public:
    /// Both outlive this.
    ThresholdWatch(const SessionOptions& options, const ProcessAccounts& processes)
        : options_(options), processes_(processes) {}

    /// Can the kernel tell us of pressure, for these processes, or for a program that we start?
    static Result<void> check(const SessionOptions& options, const std::vector<Tid>& pids);

    /// Is told by this trigger, too; its file is only named.
    void add(const std::string& file, PressureTrigger trigger, Tid pid);
    /// Adds the descriptors to be polled.
    void add_to_poll(std::vector<pollfd>* polled) const;
    /// What was passed. `polled`: those descriptors, after poll(2).
    std::vector<ThresholdPassed> take(MonotonicNs now, std::span<const pollfd> polled);
    /// When the next look is due; nothing if there is nothing to look at.
    [[nodiscard]] std::optional<MonotonicNs> due() const;

  private:
    struct Group {
        GroupMemory memory;
        unsigned looks = 0; ///< since it was found
    };
    struct Trigger {
        PressureTrigger trigger;
        PressureSpell spell;
        Tid pid;
        bool is_gone = false;
    };

    void look(const MemoryThreshold& threshold, ProcessAccount& process,
              std::vector<ThresholdPassed>* passed);
    void look_at_rss(const MemoryThreshold& threshold, ProcessAccount& process,
                     std::vector<ThresholdPassed>* passed);
    void look_at_group(const MemoryThreshold& threshold, ProcessAccount& process,
                       std::vector<ThresholdPassed>* passed);
    /// `what`: of which the value is, so that it is not told once for each process.
    void compare(const MemoryThreshold& threshold, const std::string& what,
                 const ProcessAccount& process, double value, double limit,
                 const std::string& words, std::vector<ThresholdPassed>* passed);
    const GroupMemory& group_of(Tid pid);
    void add_trigger(ProcessAccount& process);

    const SessionOptions& options_;
    const ProcessAccounts& processes_;
    MonotonicNs due_;
    std::map<std::pair<std::string, std::string>, Crossing> crossings_; ///< by text, and by what
    std::map<Tid, Group> groups_;
    std::map<std::string, Trigger> triggers_; ///< by file
    std::map<Tid, bool> has_trigger_;
};

} // namespace memleax
