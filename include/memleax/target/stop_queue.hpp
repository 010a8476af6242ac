// SPDX-License-Identifier: GPL-3.0-or-later
/// Stops that have been waited for out of turn, and stand in line until somebody asks for the next
/// one.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "memleax/base/types.hpp"
#include "memleax/target/stop_event.hpp"

namespace memleax {

class Target;

/// A stop and the process that it belongs to.
struct TargetStop {
    Target* target = nullptr;
    StopEvent event;
};

/// First come, first served. One line for all processes of a Tracer.
class StopQueue {
  public:
    [[nodiscard]] bool empty() const { return stops_.empty(); }
    [[nodiscard]] std::size_t size() const { return stops_.size(); }
    void push(const TargetStop& stop) { stops_.push_back(stop); }
    /// Unless one of the same thread stands in line already.
    void push_once(const TargetStop& stop) {
        if (!has(tid_of(stop.event))) {
            push(stop);
        }
    }
    /// The queue is not empty.
    TargetStop pop() {
        const TargetStop stop = stops_.front();
        stops_.pop_front();
        return stop;
    }
    std::optional<StopEvent> pop_of(const Target& target) {
        return event_of(pop_if([&](const TargetStop& stop) { return stop.target == &target; }));
    }
    /// The first that is none of this Target's; null: the first.
    std::optional<TargetStop> pop_but_of(const Target* but) {
        return pop_if([but](const TargetStop& stop) { return stop.target != but; });
    }
    std::optional<StopEvent> pop_of(const Target& target, Tid tid) {
        return event_of(pop_if([&](const TargetStop& stop) {
            return stop.target == &target && tid_of(stop.event) == tid;
        }));
    }
    std::optional<StopEvent> pop_newborn_of(const Target& target) {
        return event_of(pop_if([&](const TargetStop& stop) {
            return stop.target == &target && std::holds_alternative<ChildStop>(stop.event);
        }));
    }
    [[nodiscard]] bool has(const Target& target) const {
        return any_of([&](const TargetStop& stop) { return stop.target == &target; });
    }
    [[nodiscard]] bool has(Tid tid) const {
        return any_of([tid](const TargetStop& stop) { return tid_of(stop.event) == tid; });
    }
    [[nodiscard]] bool has_exec_of(Tid tid) const {
        return any_of([tid](const TargetStop& stop) {
            return tid_of(stop.event) == tid && std::holds_alternative<ExecStop>(stop.event);
        });
    }
    template <typename Predicate> [[nodiscard]] bool any_of(const Predicate& predicate) const {
        return std::any_of(stops_.begin(), stops_.end(), predicate);
    }
    void forget(Tid tid) {
        if (!stops_.empty()) {
            std::erase_if(stops_,
                          [tid](const TargetStop& stop) { return tid_of(stop.event) == tid; });
        }
    }
    void forget(const Target& target) {
        std::erase_if(stops_, [&](const TargetStop& stop) { return stop.target == &target; });
    }

    [[nodiscard]] auto begin() const { return stops_.begin(); }
    [[nodiscard]] auto end() const { return stops_.end(); }

  private:
    static std::optional<StopEvent> event_of(const std::optional<TargetStop>& stop) {
        return stop ? std::optional(stop->event) : std::nullopt;
    }
    template <typename Predicate> std::optional<TargetStop> pop_if(const Predicate& predicate) {
        const auto found = std::find_if(stops_.begin(), stops_.end(), predicate);
        if (found == stops_.end()) {
            return std::nullopt;
        }
        const TargetStop stop = *found;
        stops_.erase(found);
        return stop;
    }

    std::deque<TargetStop> stops_;
};

} // namespace memleax
