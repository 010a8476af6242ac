// SPDX-License-Identifier: GPL-3.0-or-later
#include "watched_process.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/events/process_end.hpp"
#include "memleax/proc/code_translator.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/present_pages.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_memory.hpp"
#include "memleax/supervise/tick_pace.hpp"
#include "memleax/target/process_copy.hpp"
#include "memleax/target/stop_all.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"

namespace memleax {

WatchedProcess::WatchedProcess(ProcessTree& tree, Tid pid, const WatchedProcess* parent)
    : tree_(tree), pid_(pid), parent_(parent != nullptr ? parent->pid() : Tid(0)),
      relative_(parent != nullptr ? &parent->modules() : nullptr) {}

WatchedProcess::~WatchedProcess() = default;

ProcessKeeper& WatchedProcess::keeper() {
    if (keeper_ == nullptr) {
        keeper_ = &tree_.host_.keeper(pid_, parent_);
    }
    return *keeper_;
}

void WatchedProcess::give_up() const {
    if (keeper_ != nullptr) {
        keeper_->on_given_up();
    }
}

Result<void> WatchedProcess::look() {
    do {
        program_ = program_identity(pid_);
        if (auto ours = check_architecture(pid_); !ours) {
            return ours;
        }
        if (auto read = read_modules(); !read) {
            return read;
        }
    } while (executes_another());
    return check_not_translated(pid_);
}

bool WatchedProcess::executes_another() const {
    return program_identity(pid_) != program_;
}

Error WatchedProcess::explain(Error error) const {
    const auto info = try_read_process_info(living_thread(pid_));
    if (info && !info->has_ended() && !executable_path(pid_).empty()) { // on its way, it has none
        return error;
    }
    log_debug("{}", error.message());
    return Error(fmt::format("process {} has ended before it could be watched", pid_.value()));
}

bool WatchedProcess::is_starting() const {
    if (modules_->main() == nullptr || !modules_->main()->image || is_static()) {
        return false;
    }
    return mapped_libraries().empty();
}

// Of some of them the code may not be the file's any more (copied to huge pages), so that they are
// no modules. The dynamic linker, and its cache, do not count.
std::set<std::string> WatchedProcess::mapped_libraries() const {
    const Module* const main = modules_->main();
    std::set<std::string> paths;
    for (const Mapping& mapping : modules_->mappings()) {
        const std::string name = std::filesystem::path(mapping.path).filename();
        if ((main == nullptr || mapping.path != main->path) &&
            name.find(".so") != std::string::npos && !name.starts_with("ld")) {
            paths.insert(mapping.path);
        }
    }
    return paths;
}

Result<void> WatchedProcess::read_modules() {
    auto memory = RemoteMemory::open(pid_);
    if (!memory) {
        return explain_seize_failure(pid_, memory.error().errnum());
    }
    if (memory_) {
        *memory_ = *std::move(memory); // the module map refers to it
    } else {
        memory_.emplace(*std::move(memory));
        modules_.emplace(pid_, *memory_, relative_);
        relative_ = nullptr;
    }
    auto changes = modules_->refresh();
    if (!changes) {
        return std::move(changes).error();
    }
    for (const auto& module : changes->removed) {
        keeper().account().events.on_code_gone(module->range);
    }
    const auto info = try_read_process_info(pid_);
    start_time_ = info ? info->start_time : 0;
    was_stopped_ = info && info->state == 'T'; // it is 't' once it is ours
    return {};
}

// Or something else that can be watched.
bool WatchedProcess::has_allocator() const {
    return tree_.options_.allocators->tracked().faults ||
           std::any_of(modules_->all().begin(), modules_->all().end(), [&](const auto& module) {
               if (module->unloaded) {
                   return false;
               }
               const ModulePlaces places =
                   tree_.search_.find(*module, module.get() == modules_->main());
               const auto& entries = places.entries;
               return !places.probes.empty() ||
                      std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
                          return tree_.search_.api()->traps(*entry.function);
                      });
           });
}

bool WatchedProcess::is_static() const {
    return modules_->main() != nullptr && modules_->main()->image &&
           modules_->main()->image->interpreter().empty();
}

Error WatchedProcess::no_allocator() const {
    std::string reason = tree_.options_.allocators->tracked().heap
                             ? "none of its modules defines malloc"
                             : "none of its modules defines mmap";
    for (const auto& module : modules_->all()) {
        if (!module->image) {
            reason += fmt::format("; {}: {}", module->name, module->problem);
        }
    }
    for (const std::string& path : mapped_libraries()) {
        if (std::none_of(modules_->all().begin(), modules_->all().end(),
                         [&path](const auto& module) { return module->path == path; })) {
            reason += fmt::format("; {}: its code in memory is not that of the file", path);
        }
    }
    Error error(fmt::format("no allocator found in process {} ({}): {}", pid_.value(),
                            executable_path(pid_), reason));
    if (!is_static() || modules_->main()->image->has_full_symbols()) {
        return error;
    }
    const std::string& build_id = modules_->main()->image->build_id();
    return std::move(error).with_advice(
        build_id.empty() ? "the program is stripped, and has no build-id by which its debug file "
                           "could be known"
                         : fmt::format("the program is stripped; -d FILE or --debug-dir DIR brings "
                                       "its symbols, from the debug file with build-id {}",
                                       build_id));
}

void WatchedProcess::tell_program() {
    const auto info = try_read_process_info(pid_);
    keeper().on_program(
        {executable_path(pid_), info ? info->comm : std::string("?"), watch_->engine_name()});
}

Result<void> WatchedProcess::watch(std::unique_ptr<Target> target, bool gap) {
    armed_ = false;
    target_ = std::move(target);
    if (gap) {
        keeper().account().events.on_gap(monotonic_now());
    }
    watch_ = make_watch(
        *target_, *modules_, keeper().account(), *this, tree_.search_,
        {.backtrace_limit = tree_.options_.backtrace_limit, .check = tree_.options_.check},
        tree_.options_.engine, tree_.options_.unwinder);
    tell_program();
    keeper().on_stopped(was_stopped_);
    auto armed = watch_->arm();
    if (armed) {
        armed = begin_faults();
    }
    if (!armed) {
        watch_.reset();
        target_.reset();
        return std::move(armed).error().while_doing(
            fmt::format("cannot watch process {}", pid_.value()));
    }
    armed_ = true;
    return {};
}

Result<void> WatchedProcess::begin_faults() {
    if (!tree_.options_.allocators->tracked().faults) {
        return {};
    }
    // A thread inherits the events of the one that starts it, if that has them already. Whether one
    // that comes meanwhile was too early nobody can tell: so again, unless they come all the time.
    constexpr int kTries = 10;
    for (int tries = 1;; ++tries) {
        const std::vector<Tid> threads = list_threads(pid_);
        auto begun =
            FaultWatch::begin(pid_, threads, tree_.options_.allocators->tracked().still_there());
        if (!begun) {
            return std::move(begun).error();
        }
        const std::vector<Tid> now = list_threads(pid_);
        const bool is_complete = std::all_of(now.begin(), now.end(), [&threads](Tid tid) {
            return std::find(threads.begin(), threads.end(), tid) != threads.end();
        });
        if (is_complete || tries == kTries) {
            faults_ = *std::move(begun);
            tell_resident_before();
            return {};
        }
    }
}

void WatchedProcess::tell_resident_before() {
    if (tree_.options_.allocators->tracked().still_there()) {
        const MonotonicNs now = monotonic_now();
        keeper().account().events.on_resident_before(now, resident_memory());
    }
}

std::optional<ResidentMemory> WatchedProcess::resident_memory() const {
    const Tid thread = living_thread(pid_);
    auto memory = try_read_resident_memory(thread);
    if (memory) {
        const PresentPages pages(thread);
        for (const AddrRange& own : watch_->own_memory()) {
            for (const AddrRange& range : pages.in(own, PresentPages::Kind::any)) {
                memory->own += range.size();
            }
        }
    }
    return memory;
}

bool WatchedProcess::tell_faults(bool is_last) {
    if (!faults_ || (!is_last && !faults_->any())) {
        return false;
    }
    const std::vector<AddrRange> own = watch_->own_memory();
    const FaultWatch::Means means{watch_->unwinder(), keeper().account(),
                                  tree_.options_.backtrace_limit, own};
    if (is_last) {
        faults_->tell_last(means);
        faults_.reset();
        return false;
    }
    return faults_->tell(means);
}

void WatchedProcess::on_silence() {
    if (watch_ && !ended_) {
        watch_->on_silence();
    }
}

std::int64_t WatchedProcess::on_tick() {
    if (!watch_ || !armed_ || ended_) {
        return Watch::kAnyTime;
    }
    const bool has_many_faults = tell_faults(false);
    return std::min(watch_->on_tick(), has_many_faults ? TickPace::kSoonNs : Watch::kAnyTime);
}

bool WatchedProcess::needs_ticks() const {
    return watch_ && !ended_ && watch_->needs_ticks();
}

Result<void> WatchedProcess::perform(TargetState state, const TargetWork& work) {
    const auto has_ended = [this] {
        return Error(fmt::format("process {} has ended", pid_.value()), ESRCH);
    };
    if (!watch_ || ended_) {
        return has_ended();
    }
    MonotonicNs since = monotonic_now();
    Tid borrowed;
    {
        const Tracer::ServesMeanwhile others(*tree_.tracer_, tree_.meanwhile_);
        if (state == TargetState::one_stopped) {
            const auto worker = target_->borrower().borrow_thread();
            if (!worker) {
                return worker.error();
            }
            borrowed = *worker;
        } else if (state == TargetState::all_stopped) {
            const auto stopped = stop_all_and_defer(*target_);
            if (!stopped) {
                return stopped.error();
            }
            since = *stopped;
        }
    }
    if (ended_) { // meanwhile
        return has_ended();
    }
    TargetInHand hand{*target_, *modules_, watch_->own_memory(), borrowed, since, *watch_};
    work(hand);
    return {};
}

void WatchedProcess::begin_to_leave(bool alone) {
    if (watch_ && !ended_) {
        watch_->begin_to_leave(alone);
    }
}

bool WatchedProcess::is_ready_to_leave() const {
    return !watch_ || ended_ || watch_->is_ready_to_leave();
}

void WatchedProcess::leave() {
    if (watch_) {
        if (faults_ && tree_.options_.allocators->tracked().still_there()) {
            keeper().account().events.on_resident_after(resident_memory());
        }
        tell_faults(true);
        end_copy();
        watch_->leave();
        target_->let_go_of_stops();
    }
}

// Else it would stay: who leaves does not come back for it.
void WatchedProcess::end_copy() {
    if (!ended_) {
        if (const auto ended = memleax::end_copy(*target_); !ended) {
            log_warning("{}", ended.error().message());
        }
    }
}

void WatchedProcess::forget_target() {
    watch_.reset();
    target_.reset();
}

void WatchedProcess::on_watching(std::size_t threads) {
    keeper().on_watching(threads);
    if (tree_.options_.several && !announced_) {
        announced_ = true;
        if (is_child() && !tree_.beginning_) {
            log_info("process {}, a child of {}, is watched, too", pid_.value(), parent_.value());
        }
    }
    tree_.on_watching();
}

bool WatchedProcess::on_exec() {
    auto watchable = StoppedThread(pid_).executes_foreign_code() ? check_architecture(pid_)
                                                                 : check_not_translated(pid_);
    if (!watchable) {
        end_copy();
        tree_.on_unwatchable(*this, std::move(watchable).error());
        return false;
    }
    if (is_child() && is_static() && !has_allocator()) {
        end_copy();
        return false;
    }
    tell_program();
    if (faults_) {
        faults_->on_exec();
        tell_resident_before();
    }
    return true;
}

bool WatchedProcess::take_child(Tid child, ChildOrigin origin) {
    return tree_.take_child(*this, child, origin == ChildOrigin::forked);
}

void WatchedProcess::on_ended(std::optional<int> status) {
    if (!ended_) {
        tell_faults(true);
        ended_ = true;
        tree_.any_ended_ = true;
        keeper().on_ended(status);
        if (announced_) {
            log_info("process {} has ended: {}", pid_.value(), end_text(status));
        }
    }
}

} // namespace memleax
