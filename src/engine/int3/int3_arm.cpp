// SPDX-License-Identifier: GPL-3.0-or-later
// Int3Engine: putting breakpoints in, at the attach and as modules come and go.
#include <algorithm>
#include <cerrno>
#include <map>

#include <fmt/format.h>

#include "int3_engine_impl.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"

namespace memleax {

Result<void> Int3Engine::arm() {
    armed_ = true;
    target_.set_handler(this);
    // What was loaded before is known already, when the owner has looked for an allocator. All that
    // can be found out about it is, before a thread stands still for us.
    std::vector<std::shared_ptr<const Module>> known;
    for (const auto& module : modules_.all()) {
        if (!module->unloaded) {
            known.push_back(module);
        }
    }
    const Places places = find_places(known);
    sink_.on_generation(modules_.generation());
    observer_.on_modules(modules_);
    bool executes = false;
    auto patched = patch_first(places, &executes);
    if (executes) {
        return {}; // the first event of run() arms the new program
    }
    if (!patched) {
        leave();
        return patched;
    }
    announce_if_ready();
    return {};
}

// All threads may wait for children by vfork. A child that shares the memory is no good for the
// handler of SIGTRAP, so the thread itself is waited for a little.
Result<Tid> Int3Engine::borrow_first() {
    constexpr std::int64_t kMostMsForParent = 200;
    const Patience patience(kMostMsForOthers);
    for (const Patience for_parent(kMostMsForParent);;) {
        auto worker = target_.borrow_thread();
        if (!worker && worker.error().errnum() == EAGAIN && for_parent.is_over()) {
            worker = target_.borrow_child();
        }
        if (worker || worker.error().errnum() != EAGAIN || patience.is_over() ||
            target_.has_executed()) {
            return worker;
        }
        target_.let_children_go_on();
    }
}

Result<void> Int3Engine::patch_first(const Places& places, bool* executes) {
    auto worker = borrow_first();
    const bool none_now =
        !worker && (worker.error().errnum() == EAGAIN || worker.error().errnum() == EBUSY);
    *executes = worker || none_now ? target_.has_executed() : target_.executes_instead_of_ending();
    if (*executes) {
        return {};
    }
    if (!worker) {
        return std::move(worker).error();
    }
    const auto known = target_.threads().find(*worker);
    if (known == target_.threads().end()) { // it was killed while we looked: by an exec, perhaps
        *executes = target_.executes_instead_of_ending();
        return Error(fmt::format("process {} has ended", target_.pid().value()), ESRCH);
    }
    const bool is_child = known->second.is_child_process;
    calls_.set_signature_mask(target_.signature_mask(*worker));
    auto done = trap_signal_.install(*worker);
    if (done) {
        done = patch(places, *worker);
    }
    if (done) {
        done = refresh_modules(*worker); // now that the module event is watched, what came between
        calls_.set_first_mappings(modules_.mappings());
        tell_mapped_before();
    }
    if (!done && !is_child) {
        arch::Registers regs;
        *executes = target_.get_registers(*worker, &regs) ? target_.has_executed()
                                                          : target_.executes_instead_of_ending();
    }
    return done;
}

void Int3Engine::tell_mapped_before() {
    if (!search_.api()->tracked().any_mapped()) {
        return;
    }
    std::vector<AddrRange> ranges;
    if (const auto maps = read_maps(target_.pid())) {
        for (const Mapping& mapping : *maps) {
            ranges.push_back(mapping.range);
        }
    }
    sink_.on_mapped_before(ranges);
}

void Int3Engine::announce_if_ready() {
    if (!announced_ && entry_points_ > 0) {
        announced_ = true;
        warn_of_missing();
        observer_.on_watching(target_.threads().size());
    }
}

void Int3Engine::warn_of_missing() {
    std::map<std::string, bool> origins; // and whether something of each is there
    for (const AllocatorFunction* function : search_.api()->of_user()) {
        bool& found = origins[function->origin];
        found = found || calls_.watches(*function);
    }
    for (const auto& [origin, found] : origins) {
        if (!found) {
            log_warning("{}: no module of process {} defines that so far", origin,
                        target_.pid().value());
        }
    }
}

Result<void> Int3Engine::refresh_modules(Tid worker) {
    auto changes = modules_.refresh();
    if (!changes) {
        return std::move(changes).error();
    }
    if (changes->added.empty() && changes->removed.empty()) {
        return {};
    }
    // A module whose pages were only protected differently is both gone and new; its code, with our
    // breakpoints in it, is where it was.
    std::erase_if(changes->removed, [&](const auto& gone) {
        return std::erase_if(changes->added, [&](const auto& added) {
                   return added->device == gone->device && added->inode == gone->inode &&
                          added->load_bias == gone->load_bias;
               }) != 0;
    });
    for (const auto& module : changes->removed) {
        breakpoints_.forget(module->range);
        calls_.forget_entries(module->range);
        sink_.on_code_gone(module->range);
    }
    calls_.modules_changed();
    sink_.on_generation(modules_.generation());
    observer_.on_modules(modules_);
    const bool had_mapping_calls = mapping_entry_points_ != 0;
    auto patched = patch(find_places(changes->added), worker);
    if (!had_mapping_calls && mapping_entry_points_ != 0) {
        tell_mapped_before(); // by the dynamic linker of a program that was just executed
    }
    return patched;
}

Int3Engine::Places
Int3Engine::find_places(const std::vector<std::shared_ptr<const Module>>& modules) {
    Places places;
    for (const auto& module : modules) {
        if (!module->image) {
            log_debug("{}: {}", module->name, module->problem);
        }
        const auto found = search_.find(*module, module.get() == modules_.main());
        places.entries.insert(places.entries.end(), found.entries.begin(), found.entries.end());
        if (found.module_event) {
            places.module_events.push_back(*found.module_event);
        }
        places.signal_actions.insert(places.signal_actions.end(), found.signal_actions.begin(),
                                     found.signal_actions.end());
        for (const std::string_view name : found.chosen_at_run_time) {
            log_warning("{} in {} is chosen at run time (IFUNC) and is not watched", name,
                        module->name);
        }
    }
    std::stable_sort(
        places.entries.begin(), places.entries.end(),
        [](const auto& a, const auto& b) { return a.function->call < b.function->call; });
    return places;
}

Result<void> Int3Engine::patch(const Places& places, Tid worker) {
    for (const CodeAddr event : places.module_events) {
        auto inserted = breakpoints_.insert(event, worker);
        if (!inserted) {
            return std::move(inserted).error();
        }
        (*inserted)->is_module_event = true;
    }
    for (const auto& [action, of_c_library] : places.signal_actions) {
        // Without it, what the target sets is found out later (TrapSignal).
        auto inserted = breakpoints_.insert(action, worker);
        if (inserted) {
            (*inserted)->is_signal_action = true;
            (*inserted)->of_c_library = of_c_library;
        }
        const auto held = inserted ? breakpoints_.hold_unwatched(**inserted)
                                   : Result<void>(std::move(inserted).error());
        if (!held) {
            log_debug("sigaction at {:#x}: {}", action.value(), held.error().message());
        }
    }
    for (const AllocatorEntry& entry : places.entries) {
        if (!search_.api()->traps(*entry.function)) {
            calls_.add_unwatched(entry);
            continue;
        }
        auto inserted = breakpoints_.insert(entry.address, worker);
        if (!inserted) {
            return std::move(inserted).error().while_doing(
                fmt::format("cannot watch {}", entry.function->name));
        }
        (*inserted)->entry = calls_.add_entry(entry);
        ++entry_points_;
        mapping_entry_points_ += entry.function->mapping != MappingCall::none ? 1 : 0;
        log_debug("breakpoint at {} ({:#x})", entry.function->name, entry.address.value());
    }
    return {};
}

} // namespace memleax
