// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe_watch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "probe_operand.hpp"

namespace memleax {

namespace {

/// As a child of posix_spawn(3)'s does, whose memory is its parent's.
bool is_called_while_traps_are_blocked(std::string_view function) {
    return function == "execve" || function == "execveat";
}

} // namespace

void ProbeWatch::watch(const std::vector<ProbePlace>& places, Tid worker) {
    for (const ProbePlace& place : places) {
        if (const auto watched = watch_one(place, worker); !watched) {
            refused_.push_back(place.name);
            log_warning("the probe {} at {:#x} is not watched: {}", place.name,
                        place.address.value(), watched.error().message());
        }
    }
}

Result<void> ProbeWatch::watch_one(const ProbePlace& place, Tid worker) {
    if (!place.is_function) {
        // A note may lie; in the middle of an instruction a breakpoint would end the target.
        std::array<std::uint8_t, arch::kMaxInstructionBytes> code{};
        const std::size_t got = target_.memory().try_read(place.address.as_data(),
                                                          std::as_writable_bytes(std::span(code)));
        if (!arch::is_probe_place(std::span(code).first(got))) {
            return Error("there is no no-op, as its note says");
        }
    }
    if (place.is_function && is_called_while_traps_are_blocked(place.name)) {
        return Error("a child of posix_spawn calls it with all signals blocked: should memleax be "
                     "killed at that moment, its breakpoint would end the child");
    }
    if (breakpoints_.is_under_jump(place.address)) {
        return Error("its place is one that the engine inline has changed; with --engine int3 it "
                     "can be watched");
    }
    auto inserted = breakpoints_.insert(place.address, worker);
    if (!inserted) {
        return std::move(inserted).error();
    }
    Breakpoint& breakpoint = **inserted;
    if (breakpoint.is_signal_action) {
        return Error("memleax itself watches this function, for handlers of SIGTRAP");
    }
    if (place.semaphore) {
        if (auto raised = breakpoints_.raise_counter(*place.semaphore); !raised) {
            return raised;
        }
    }
    breakpoint.probe = site_of(breakpoint);
    auto& site = sites_[static_cast<std::size_t>(breakpoint.probe)];
    // A macro in a function that was inlined twice may have left one note twice.
    const bool is_known = std::any_of(site.begin(), site.end(), [&place](const ProbePlace& each) {
        return each.name == place.name;
    });
    if (!is_known) {
        site.push_back(place);
    }
    events_.on_probe(place.name);
    log_debug("breakpoint at the probe {} ({:#x})", place.name, place.address.value());
    return {};
}

int ProbeWatch::site_of(const Breakpoint& breakpoint) {
    if (breakpoint.probe >= 0) {
        return breakpoint.probe;
    }
    const auto unused =
        std::find_if(sites_.begin(), sites_.end(), [](const auto& site) { return site.empty(); });
    const auto number = static_cast<int>(unused - sites_.begin());
    if (unused == sites_.end()) {
        sites_.emplace_back();
    }
    return number;
}

void ProbeWatch::forget(AddrRange range) {
    for (auto& site : sites_) {
        if (!site.empty() && range.contains(site.front().address.value())) {
            site.clear();
        }
    }
}

bool ProbeWatch::watches(const std::string& request) const {
    return std::any_of(sites_.begin(), sites_.end(), [&request](const auto& site) {
        return std::any_of(site.begin(), site.end(), [&request](const ProbePlace& each) {
            return ProbeRequests::asks_for(request, each.name);
        });
    });
}

bool ProbeWatch::has_refused(const std::string& request) const {
    return std::any_of(refused_.begin(), refused_.end(), [&request](const std::string& name) {
        return ProbeRequests::asks_for(request, name);
    });
}

void ProbeWatch::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    const auto& site = sites_[static_cast<std::size_t>(breakpoint.probe)];
    const bool is_entry = std::any_of(site.begin(), site.end(),
                                      [](const ProbePlace& each) { return each.is_function; });
    if (is_entry) {
        reporter_.unwinder().unwind_at_entry(regs, follower_.walk_limit(), &stack_);
    } else {
        reporter_.unwinder().unwind(regs, follower_.walk_limit(), &stack_);
    }
    const auto at = is_entry ? StackRecorder::At::entry : StackRecorder::At::any_instruction;
    const StackId stack = follower_.intern(reporter_.recorder().to_record(tid, regs, at, stack_));
    for (const ProbePlace& each : site) {
        ProbeHit hit{.name = each.name, .stack = stack, .first_argument = {}};
        if (each.is_function) {
            hit.first_argument = static_cast<std::int64_t>(arch::argument(regs, 0));
        } else if (!each.arguments.empty()) {
            hit.first_argument = value_of(each.arguments.front(), regs, target_.memory());
        }
        events_.on_probe_hit(hit);
    }
}

} // namespace memleax
