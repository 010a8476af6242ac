// SPDX-License-Identifier: GPL-3.0-or-later
// LifeCycle: the begin of the watching, and modules that come and go.
#include <algorithm>
#include <cerrno>
#include <map>

#include <fmt/format.h>

#include "life_cycle.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/target/pending_exec.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/vfork.hpp"

namespace memleax {

Result<void> LifeCycle::arm() {
    armed_ = true;
    own_pages_ = {};
    target_.set_handler(this);
    // What was loaded before is known already, when the owner has looked for an allocator. All that
    // can be found out about it is, before a thread stands still for us.
    std::vector<std::shared_ptr<const Module>> known;
    for (const auto& module : modules_.all()) {
        if (!module->unloaded) {
            known.push_back(module);
        }
    }
    const WatchedPlaces places = find_places(search_, modules_, known);
    account_.events.on_generation(modules_.generation());
    observer_.on_modules(modules_);
    bool executes = false;
    auto watched = watch_first(places, &executes);
    if (executes) {
        return {}; // the first event of run() arms the new program
    }
    if (!watched) {
        leave();
        return watched;
    }
    announce_if_ready();
    return {};
}

// All threads may wait for children by vfork. A child that shares the memory is no good for the
// handler of SIGTRAP, so the thread itself is waited for a little.
Result<Tid> LifeCycle::borrow_first() {
    constexpr std::int64_t kMostMsForParent = 200;
    const Patience patience(kMostMsForOthers);
    for (const Patience for_parent(kMostMsForParent);;) {
        auto worker = target_.borrower().borrow_thread();
        if (!worker && worker.error().errnum() == EAGAIN && for_parent.is_over()) {
            worker = target_.borrower().borrow_child();
        }
        if (worker || worker.error().errnum() != EAGAIN || patience.is_over() ||
            PendingExec(target_).has_happened()) {
            return worker;
        }
        let_children_go_on(target_);
    }
}

Result<void> LifeCycle::watch_first(const WatchedPlaces& places, bool* executes) {
    auto worker = borrow_first();
    const int why_none = worker ? 0 : worker.error().errnum();
    const bool none_now = why_none == EAGAIN || why_none == EBUSY || why_none == EINTR;
    *executes = worker || none_now ? PendingExec(target_).has_happened()
                                   : PendingExec(target_).happens_instead_of_end();
    if (*executes) {
        return {};
    }
    if (!worker) {
        return std::move(worker).error();
    }
    const auto known = target_.threads().find(*worker);
    if (known == target_.threads().end()) { // it was killed while we looked: by an exec, perhaps
        *executes = PendingExec(target_).happens_instead_of_end();
        return Error(fmt::format("process {} has ended", target_.pid().value()), ESRCH);
    }
    const bool is_child = known->second.is_child_process;
    engine_->set_signature_mask(StoppedThread(*worker).signature_mask());
    auto done = trap_signal_.install(*worker);
    // One that was made since the others were seized has no handler of ours, and its first
    // breakpoint would end it.
    if (done && target_.was_running()) {
        done = target_.seize_untraced();
    }
    if (done) {
        done = watch_places(places, *worker);
    }
    if (done) {
        begin_to_see_calls();
        done = refresh_modules(*worker); // now that the module event is watched, what came between
        environment_.set_first_mappings(modules_.mappings());
        tell_mapped_before();
    }
    if (!done && !is_child) {
        arch::Registers regs;
        *executes = StoppedThread(*worker).get_registers(&regs)
                        ? PendingExec(target_).has_happened()
                        : PendingExec(target_).happens_instead_of_end();
    }
    return done;
}

void LifeCycle::begin_to_see_calls() {
    std::vector<AddrRange> ranges;
    for (const AllocatorEntry& function : follower_.functions()) {
        if (function.function->call != AllocatorCall::free) {
            const std::uint64_t begin = function.address.value();
            ranges.push_back({begin, begin + std::max<std::uint64_t>(function.size, 1)});
        }
    }
    earlier_.begin(std::move(ranges));
    account_.events.on_earlier_calls(earlier_.any());
}

void LifeCycle::tell_if_all_are_seen() {
    if (!earlier_.any() && !told_of_untraced_) {
        account_.events.on_earlier_calls(false);
    }
}

void LifeCycle::tell_mapped_before() {
    if (!search_.api()->tracked().any_mapped()) {
        return;
    }
    std::vector<AddrRange> ranges;
    if (const auto maps = read_maps(target_.pid())) {
        for (const Mapping& mapping : *maps) {
            ranges.push_back(mapping.range);
        }
    }
    account_.events.on_mapped_before(ranges);
}

void LifeCycle::announce_if_ready() {
    // Page faults are seen without any function.
    if (!announced_ && (!follower_.functions().empty() || watches_any_probe() ||
                        search_.api()->tracked().faults)) {
        announced_ = true;
        warn_of_missing();
        observer_.on_watching(target_.threads().size());
    }
}

bool LifeCycle::watches_any_probe() const {
    const std::vector<std::string>& requests = search_.api()->probes().all();
    return std::any_of(requests.begin(), requests.end(), [this](const std::string& request) {
        return engine_->watches_probe(request);
    });
}

void LifeCycle::warn_of_missing_probes() {
    for (const std::string& request : search_.api()->probes().all()) {
        if (!engine_->watches_probe(request) && !engine_->has_refused_probe(request)) {
            log_warning("--probe {}: no module of process {} has that so far{}", request,
                        target_.pid().value(),
                        request.starts_with("libc:")
                            ? "; a C library may have been built without its probes, as Debian's is"
                            : "");
        }
    }
}

void LifeCycle::warn_of_missing() {
    warn_of_missing_probes();
    std::map<std::string, bool> origins; // and whether something of each is there
    for (const AllocatorFunction* function : search_.api()->of_user()) {
        bool& found = origins[function->origin];
        found = found || follower_.follows(*function);
    }
    for (const auto& [origin, found] : origins) {
        if (!found) {
            log_warning("{}: no module of process {} defines that so far", origin,
                        target_.pid().value());
        }
    }
}

Result<void> LifeCycle::refresh_modules(Tid worker) {
    observer_.before_modules_change();
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
    // It may have gone before anybody was stopped, and what is ours be where it was.
    for (const auto& module : changes->removed) {
        for (const AddrRange& range : breakpoints_.own_codes().outside(module->range)) {
            engine_->forget(range);
            follower_.forget_functions(range);
            account_.events.on_code_gone(range);
        }
    }
    engine_->modules_changed();
    follower_.modules_changed();
    account_.events.on_generation(modules_.generation());
    observer_.on_modules(modules_);
    const bool watched_mappings = follower_.follows_mappings();
    auto watched = watch_places(find_places(search_, modules_, changes->added), worker);
    if (!watched_mappings && follower_.follows_mappings()) {
        tell_mapped_before(); // by the dynamic linker of a program that was just executed
    }
    return watched;
}

Result<void> LifeCycle::watch_places(const WatchedPlaces& places, Tid worker) {
    for (const AllocatorEntry& function : places.untold) {
        follower_.add_unreported(function);
    }
    if (places.has_leak_sanitizer) {
        observer_.on_leak_sanitizer();
    }
    auto watched = engine_->watch(places, worker);
    own_pages_.look(target_.memory(), breakpoints_.own_codes());
    return watched;
}

void LifeCycle::on_module_event(Tid tid) {
    if (const auto refreshed = refresh_modules(tid); !refreshed) {
        log_warning("a change of the loaded modules could not be followed: {}",
                    refreshed.error().message());
    }
    announce_if_ready();
}

} // namespace memleax
