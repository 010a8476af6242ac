// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/threshold_watch.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/meminfo.hpp"
#include "memleax/proc/process_memory.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// Some small files are read that often.
constexpr std::int64_t kLookNs = 200'000'000;
/// After so many looks: has the process been moved to another group, or has one got a limit?
constexpr unsigned kLooksAtOneGroup = 50;
/// A value that goes up and down around the threshold passes it once.
constexpr double kBelow = 0.95;

std::string amount_text(double value, double of) {
    return fmt::format("{} of {} used ({})", bytes_text(value), bytes_text(of),
                       share_text(value / of));
}

} // namespace

bool Crossing::passes(double value, double threshold) {
    const bool is_beyond = value >= threshold;
    if (!is_beyond_) {
        is_beyond_ = is_beyond;
        began_beyond_ = is_beyond;
        return false;
    }
    if (*is_beyond_ && value < kBelow * threshold) {
        is_beyond_ = false;
        began_beyond_ = false;
    }
    return is_beyond && !std::exchange(*is_beyond_, *is_beyond_ || is_beyond);
}

PressureSpell::PressureSpell(std::int64_t window_us)
    : quiet_ns_(std::max(10 * kNsPerSecond, 5 * window_us * 1000)) {}

bool PressureSpell::begins(MonotonicNs now) {
    const auto before = std::exchange(last_, now);
    return !before || now.value() - before->value() > quiet_ns_;
}

Result<void> ThresholdWatch::check(const SessionOptions& options, const std::vector<Tid>& pids) {
    if (!options.at_pressure) {
        return {};
    }
    // A program that we start begins in our group.
    for (const Tid pid : options.command.empty() ? pids : std::vector{Tid(getpid())}) {
        if (auto trigger = PressureTrigger::open(pressure_file_of(pid), options.at_pressure->stall);
            !trigger) {
            return std::move(trigger).error();
        }
    }
    return {};
}

std::optional<MonotonicNs> ThresholdWatch::due() const {
    const bool looks = !options_.at_memory.empty() || options_.at_pressure;
    return looks ? std::optional(due_) : std::nullopt;
}

void ThresholdWatch::add_to_poll(std::vector<pollfd>* polled) const {
    for (const auto& [file, trigger] : triggers_) {
        polled->push_back({trigger.is_gone ? -1 : trigger.trigger.fd(), POLLPRI, 0});
    }
}

std::vector<ThresholdPassed> ThresholdWatch::take(MonotonicNs now, std::span<const pollfd> polled) {
    std::vector<ThresholdPassed> passed;
    std::size_t i = 0;
    for (auto& [file, trigger] : triggers_) {
        const short events = i < polled.size() ? polled[i++].revents : short{0};
        trigger.is_gone = trigger.is_gone || (events & (POLLERR | POLLNVAL)) != 0;
        if (!trigger.is_gone && (events & POLLPRI) != 0 && trigger.spell.begins(now)) {
            const StallThreshold& stall = options_.at_pressure->stall;
            passed.push_back({ThresholdPassed::Kind::pressure, trigger.pid,
                              fmt::format("{} waited for memory for {} ms within {} ms, says "
                                          "{} (--at-pressure {})",
                                          stall.full ? "all tasks" : "tasks",
                                          static_cast<double>(stall.stall_us) / 1000,
                                          static_cast<double>(stall.window_us) / 1000, file,
                                          options_.at_pressure->text)});
        }
    }
    if (!due() || now < due_) {
        return passed;
    }
    due_ = MonotonicNs(now.value() + kLookNs);
    for (ProcessAccount* process : processes_.active()) {
        if (process->time(now) != now) { // it has ended
            continue;
        }
        if (options_.at_pressure) {
            add_trigger(*process);
        }
        for (const MemoryThreshold& threshold : options_.at_memory) {
            look(threshold, *process, &passed);
        }
    }
    return passed;
}

void ThresholdWatch::look(const MemoryThreshold& threshold, ProcessAccount& process,
                          std::vector<ThresholdPassed>* passed) {
    if (threshold.share) {
        look_at_group(threshold, process, passed);
    } else {
        look_at_rss(threshold, process, passed);
    }
}

void ThresholdWatch::look_at_rss(const MemoryThreshold& threshold, ProcessAccount& process,
                                 std::vector<ThresholdPassed>* passed) {
    const Tid pid = process.pid();
    if (const auto rss = try_read_resident_bytes(pid)) {
        const auto bytes = static_cast<double>(*rss);
        compare(threshold, fmt::format("process {}", process.number()), process, bytes,
                static_cast<double>(threshold.rss_bytes),
                fmt::format("RSS of process {} is {}", pid.value(), bytes_text(bytes)), passed);
    }
}

void ThresholdWatch::look_at_group(const MemoryThreshold& threshold, ProcessAccount& process,
                                   std::vector<ThresholdPassed>* passed) {
    const GroupMemory& group = group_of(process.pid());
    const auto used = group.used();
    if (group.limit && used) {
        const auto limit = static_cast<double>(*group.limit);
        const auto value = static_cast<double>(*used);
        compare(threshold, group.folder, process, value, limit * *threshold.share,
                fmt::format("the control group {} has {}", group.path, amount_text(value, limit)),
                passed);
        return;
    }
    const MachineMemory machine = read_meminfo();
    if (machine.total && machine.available) {
        const auto total = static_cast<double>(*machine.total);
        const double value = total - static_cast<double>(*machine.available);
        compare(threshold, "the machine", process, value, total * *threshold.share,
                fmt::format("the machine has {}", amount_text(value, total)), passed);
    }
}

void ThresholdWatch::compare(const MemoryThreshold& threshold, const std::string& what,
                             const ProcessAccount& process, double value, double limit,
                             const std::string& words, std::vector<ThresholdPassed>* passed) {
    const auto [found, is_new] = crossings_.try_emplace({threshold.text, what});
    const bool passes = found->second.passes(value, limit);
    if (passes) {
        passed->push_back({ThresholdPassed::Kind::memory, process.pid(),
                           fmt::format("{} (--at-memory {})", words, threshold.text)});
    } else if (is_new && found->second.began_beyond()) {
        // A child is as large as its parent when it is forked.
        log_line(process.facts().parent.value() == 0 ? LogLevel::warning : LogLevel::debug,
                 fmt::format("{}, beyond --at-memory {} from the begin: nothing is saved before it "
                             "has fallen below that",
                             words, threshold.text));
    }
}

const GroupMemory& ThresholdWatch::group_of(Tid pid) {
    Group& group = groups_[pid];
    if (group.looks == 0) {
        group.memory = read_group_memory(pid);
    } else if (group.memory.limit) { // else its amounts are nobody's concern
        group.memory = look_again(group.memory);
    }
    group.looks = (group.looks + 1) % kLooksAtOneGroup;
    return group.memory;
}

void ThresholdWatch::add_trigger(ProcessAccount& process) {
    if (!has_trigger_.emplace(process.pid(), true).second) {
        return;
    }
    const std::string file = pressure_file_of(process.pid());
    if (triggers_.contains(file)) {
        return;
    }
    auto trigger = PressureTrigger::open(file, options_.at_pressure->stall);
    if (!trigger) { // of a child in a group of its own; the others have been tried before
        log_warning("{}", trigger.error().message());
        return;
    }
    add(file, *std::move(trigger), process.pid());
}

void ThresholdWatch::add(const std::string& file, PressureTrigger trigger, Tid pid) {
    triggers_.emplace(file, Trigger{std::move(trigger),
                                    PressureSpell(options_.at_pressure->stall.window_us), pid});
}

} // namespace memleax
