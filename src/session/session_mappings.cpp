// SPDX-License-Identifier: GPL-3.0-or-later
// Session: memory that is mapped.
#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "memleax/base/clock.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/session/session.hpp"

namespace memleax {

namespace {

/// Events of a process that are printed in one go.
constexpr std::size_t kEventsAtOnce = 256;

/// Would we have seen the call that has made this, if it was made through the C library while we
/// watched? Not so the dynamic linker's mappings of files, and our own pages, which are code.
bool is_followed(const Mapping& mapping, const TrackedMemory& tracked) {
    if (mapping.executable) {
        return false;
    }
    if (mapping.path == "[heap]") {
        return tracked.brk;
    }
    if (mapping.path.starts_with("/SYSV")) {
        return tracked.shm;
    }
    return tracked.mmap && (mapping.path.empty() || mapping.path.starts_with("[anon") ||
                            mapping.path == "/dev/zero"); // shared, and of no file
}

} // namespace

void Session::look_at_mappings() {
    const TrackedMemory& tracked = options_.allocators->tracked();
    if (!tracked.any_mapped() || phase_ != Phase::watching) {
        return;
    }
    const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    for (ProcessAccount* process : accounts_.all()) {
        const auto maps = process->facts().ended ? Result<std::vector<Mapping>>(Error("ended"))
                                                 : read_maps(process->pid());
        if (!maps) {
            continue;
        }
        const auto& modules = process->names().modules();
        std::uint64_t bytes = 0;
        for (const Mapping& mapping : *maps) {
            const bool is_modules = // its .bss
                std::any_of(modules.begin(), modules.end(), [&mapping](const auto& module) {
                    return !module->unloaded && module->range.contains(mapping.range.begin);
                });
            if (!is_modules && is_followed(mapping, tracked)) {
                bytes += process->tracker().with([&](Tracker& tracker) {
                    return tracker.unexplained(mapping.range, page_size);
                });
            }
        }
        process->set_unexplained(bytes);
    }
}

void Session::set_live_events(bool live) {
    live_events_ = live;
    for (ProcessAccount* process : accounts_.all()) {
        printed_events_[process] =
            process->tracker().with([](Tracker& t) { return t.mapping_log().last(); });
    }
}

void Session::print_events() {
    if (!live_events_ || (client_ != nullptr && client_->holds_output() && !ending_)) {
        return;
    }
    for (ProcessAccount* process : accounts_.all()) {
        std::uint64_t& printed = printed_events_[process];
        for (;;) {
            const auto calls = process->tracker().with(
                [&](Tracker& t) { return t.mapping_log().after(printed, kEventsAtOnce); });
            if (calls.empty()) {
                break;
            }
            if (calls.front().number != printed + 1) {
                print(fmt::format("({} events were too many to be printed)\n",
                                  calls.front().number - printed - 1));
            }
            for (const LoggedMapping& call : calls) {
                const Backtrace frames = process->names().resolve(call.stack);
                if (!filter_.empty() && !filter_.shows(frames)) {
                    continue;
                }
                const std::string text = mapping_call(call, seconds_since_start(call.time), frames,
                                                      process->names().end(call.stack));
                print(with_process(*process, text));
            }
            printed = calls.back().number;
        }
    }
}

} // namespace memleax
