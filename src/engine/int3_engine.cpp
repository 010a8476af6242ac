// SPDX-License-Identifier: GPL-3.0-or-later
// Putting breakpoints in, and what each stop means while watching.
#include <algorithm>
#include <csignal>
#include <map>

#include <fmt/format.h>

#include "forked_copy.hpp"
#include "int3_engine_impl.hpp"
#include "memleax/clock.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"

namespace memleax {

std::unique_ptr<Engine> make_int3_engine(Target& target, ModuleMap& modules, EventSink& sink,
                                         EngineObserver& observer, const Int3Options& options) {
    return std::make_unique<Int3Engine>(target, modules, sink, observer, options);
}

Int3Engine::Int3Engine(Target& target, ModuleMap& modules, EventSink& sink,
                       EngineObserver& observer, const Int3Options& options)
    : target_(target), modules_(modules), sink_(sink), observer_(observer), breakpoints_(target),
      allocators_(options.allocators), calls_(target, modules, breakpoints_, sink, options),
      trap_signal_(target, breakpoints_.handler()) {}

Int3Engine::~Int3Engine() {
    leave();
}

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

Result<void> Int3Engine::patch_first(const Places& places, bool* executes) {
    auto worker = target_.borrow_thread();
    *executes = worker ? target_.has_executed() : target_.executes_instead_of_ending();
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
    if (!allocators_->tracked().any_mapped()) {
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
    for (const AllocatorFunction* function : allocators_->of_user()) {
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
    return patch(find_places(changes->added), worker);
}

Int3Engine::Places
Int3Engine::find_places(const std::vector<std::shared_ptr<const Module>>& modules) {
    Places places;
    for (const auto& module : modules) {
        if (!module->image) {
            log_debug("{}: {}", module->name, module->problem);
        }
        const auto found = allocators_->find_entries(*module, module.get() == modules_.main());
        places.entries.insert(places.entries.end(), found.begin(), found.end());
        if (const auto event = find_module_event(*module)) {
            places.module_events.push_back(*event);
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
    for (const AllocatorEntry& entry : places.entries) {
        if (!allocators_->traps(*entry.function)) {
            calls_.know(entry);
            continue;
        }
        auto inserted = breakpoints_.insert(entry.address, worker);
        if (!inserted) {
            return std::move(inserted).error().while_doing(
                fmt::format("cannot watch {}", entry.function->name));
        }
        (*inserted)->entry = calls_.add_entry(entry);
        ++entry_points_;
        log_debug("breakpoint at {} ({:#x})", entry.function->name, entry.address.value());
    }
    return {};
}

void Int3Engine::on_stop(const StopEvent& event) {
    std::visit([this](const auto& stop) { on_stop(stop); }, event);
}

Breakpoint* Int3Engine::our_breakpoint(Tid tid, arch::Registers* regs) {
    Breakpoint* breakpoint = breakpoints_.find_hit(*regs);
    if (breakpoint == nullptr) {
        return nullptr;
    }
    // Behind a one-byte instruction, and in a slot, the pc can stand there without a hit: a SIGTRAP
    // that somebody sent at that moment is not ours. Behind a longer one it cannot.
    if ((breakpoint->original_length == arch::kBreakpointBytes.size() ||
         breakpoint->slot == arch::pc(*regs)) &&
        !target_.is_breakpoint_trap(tid)) {
        return nullptr;
    }
    // As the thread stood before it executed the breakpoint.
    arch::set_pc(*regs, breakpoint->address);
    return breakpoint;
}

bool Int3Engine::secure(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return true; // killed meanwhile
    }
    const Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint != nullptr) {
        breakpoints_.move_to_slot(tid, regs, *breakpoint);
    }
    return breakpoint != nullptr;
}

void Int3Engine::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    if (!rehits_.empty()) {
        const auto it = rehits_.find(tid);
        if (it != rehits_.end() && it->second.address == breakpoint.address &&
            it->second.sp == arch::sp(regs)) {
            rehits_.erase(it);
            return;
        }
    }
    calls_.on_hit(tid, regs, breakpoint, true);
}

void Int3Engine::on_stop(const TrapStop& stop) {
    arch::Registers regs; // filled by the next line
    if (!target_.get_registers(stop.tid, &regs)) {
        return; // killed meanwhile; its end will be told
    }
    Breakpoint* breakpoint = our_breakpoint(stop.tid, &regs);
    if (breakpoint == nullptr) {
        deliver(stop.tid, SIGTRAP);
        return;
    }
    breakpoints_.move_to_slot(stop.tid, regs, *breakpoint);
    target_.drop_stop_signal(stop.tid);
    trap_signal_.after_hit(stop.tid);
    on_hit(stop.tid, regs, *breakpoint);
    if (breakpoint->is_module_event) {
        auto refreshed = refresh_modules(stop.tid);
        if (!refreshed) {
            log_warning("a change of the loaded modules could not be followed: {}",
                        refreshed.error().message());
        }
        announce_if_ready();
    }
    breakpoints_.continue_from(stop.tid, &regs, *breakpoint);
}

void Int3Engine::on_stop(const SignalStop& stop) {
    deliver(stop.tid, stop.signal);
}

void Int3Engine::deliver(Tid tid, int signal) {
    move_out_of_slot(tid);
    restore_code_for_core(tid, signal);
    if (signal == SIGTRAP) {
        signal = trap_signal_.before_delivery(tid);
    }
    calls_.on_signal(tid);
    target_.resume(tid, signal);
}

void Int3Engine::restore_code_for_core(Tid tid, int signal) {
    switch (signal) { // signal(7)
    case SIGQUIT:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
        break;
    default:
        return;
    }
    const auto info = try_read_process_info(tid);
    const bool handled =
        info && ((info->caught_signals | info->ignored_signals) & (1ULL << (signal - 1))) != 0;
    if (signal == SIGTRAP ? trap_signal_.is_default() : !handled) {
        restore_code();
    }
}

void Int3Engine::move_out_of_slot(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return;
    }
    if (!breakpoints_.leave_slot(&regs)) {
        // The frame of this signal will refer to the handler's page.
        doubtful_ = doubtful_ || breakpoints_.handler().contains(arch::pc(regs));
        return;
    }
    target_.set_registers(tid, regs);
    const CodeAddr pc = arch::pc(regs);
    const Breakpoint* breakpoint = breakpoints_.find(pc);
    if (breakpoint != nullptr && breakpoint->inserted) {
        rehits_[tid] = {pc, arch::sp(regs)};
    }
}

void Int3Engine::on_stop(const GroupStop& stop) {
    target_.listen(stop.tid);
}

void Int3Engine::on_stop(const QuietStop& stop) {
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const BirthStop& stop) {
    trap_signal_.on_birth(stop.tid, stop.child);
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const ChildStop& stop) {
    if (stop.shares_memory) {
        target_.adopt_child(stop.tid);
        target_.resume(stop.tid);
        return;
    }
    clean_copy(target_, breakpoints_, trap_signal_, stop.tid, doubtful_);
    if (!observer_.take_child(stop.tid, ChildOrigin::forked)) {
        target_.detach(stop.tid);
    }
    note_if_all_gone();
}

void Int3Engine::on_stop(const ExecStop& stop) {
    if (has_lost_privileges(stop.tid)) {
        log_warning("process {} executes {} without the privileges that this file gives: the "
                    "kernel grants none to a traced process, unless its tracer has CAP_SYS_PTRACE",
                    stop.tid.value(), executable_path(stop.tid));
    }
    trap_signal_.restore_after_exec(stop.tid, stop.former);
    if (stop.tid != target_.pid()) { // a vfork child that has its own program now
        calls_.on_thread_gone(stop.tid);
        trap_signal_.on_thread_gone(stop.tid);
        rehits_.erase(stop.tid);
        if (!observer_.take_child(stop.tid, ChildOrigin::executed)) {
            target_.detach(stop.tid);
        }
        note_if_all_gone();
        return;
    }
    breakpoints_.forget_all();
    calls_.reset();
    rehits_.clear();
    entry_points_ = 0;
    modules_.forget_all();
    auto reopened = target_.reopen_memory();
    if (reopened) {
        reopened = trap_signal_.install(stop.tid);
    }
    if (announced_) {
        sink_.on_memory_gone(monotonic_now());
    }
    auto refreshed = reopened ? refresh_modules(stop.tid) : std::move(reopened);
    if (arch::Registers regs; !refreshed && target_.get_registers(stop.tid, &regs)) {
        log_error("{}", refreshed.error().message()); // else its end is about to be told
    }
    tell_mapped_before();
    if (!observer_.on_exec()) {
        leave();
        on_all_gone();
        return;
    }
    if (announced_) {
        log_info("process {} executes another program, which is watched from now on",
                 target_.pid().value());
    }
    announce_if_ready();
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const ThreadGone& stop) {
    calls_.on_thread_gone(stop.tid);
    trap_signal_.on_thread_gone(stop.tid);
    rehits_.erase(stop.tid);
    if (stop.tid == target_.pid()) {
        end_status_ = stop.status;
    }
    note_if_all_gone();
}

void Int3Engine::on_silence() {
    target_.forget_dead_children();
    note_if_all_gone();
}

void Int3Engine::note_if_all_gone() {
    if (!target_gone_ && target_.threads().empty() && target_.expected_children().empty()) {
        on_all_gone();
    }
}

void Int3Engine::on_all_gone() {
    target_gone_ = true;
    breakpoints_.forget_all();
    observer_.on_ended(end_status_);
}

} // namespace memleax
