// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/watcher.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "arch.hpp"
#include "memleax/allocator_api.hpp"
#include "memleax/clock.hpp"
#include "memleax/int3_engine.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"

namespace memleax {

namespace {

/// The reason why a process that has no allocator we know has none.
Error no_allocator(Tid pid, const ModuleMap& modules) {
    std::string reason = "none of its modules defines malloc";
    for (const auto& module : modules.all()) {
        if (!module->image) {
            reason += fmt::format("; {}: {}", module->name, module->problem);
        }
    }
    return Error(fmt::format("no allocator found in process {} ({}): {}", pid.value(),
                             executable_path(pid), reason));
}

bool has_allocator(const ModuleMap& modules) {
    return std::any_of(modules.all().begin(), modules.all().end(), [&](const auto& module) {
        return !find_allocator_entries(*module, module.get() == modules.main()).empty();
    });
}

/// Is everything that will ever be mapped there already, as no dynamic linker is at work?
bool is_static(const ModuleMap& modules) {
    return modules.main() != nullptr && modules.main()->image &&
           modules.main()->image->interpreter().empty();
}

} // namespace

Watcher::Watcher(WatchRequest request, EventSink& sink)
    : request_(std::move(request)), sink_(sink), changes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};
    sigaction(kWakeSignal, &wake, nullptr); // no SA_RESTART: a blocking waitpid ends with EINTR
}

Watcher::~Watcher() {
    stop();
    if (changes_ >= 0) {
        close(changes_);
    }
}

void Watcher::start() {
    stop_.store(false);
    done_.store(false);
    {
        const std::lock_guard lock(mutex_);
        state_ = State::starting;
        error_.reset();
    }
    if (!guardian_) {
        auto guardian = Guardian::start();
        if (guardian) {
            guardian_ = *std::move(guardian);
        } else {
            log_warning("{}: should memleax be killed, breakpoints stay in the target",
                        guardian.error().message());
        }
    }
    thread_ = std::thread([this] { run(); });
}

void Watcher::stop() {
    stop_.store(true);
    if (!thread_.joinable()) {
        return;
    }
    // The signal may come just before the thread begins to wait, and be lost: so again, until it
    // has been understood.
    while (!done_.load()) {
        pthread_kill(thread_.native_handle(), kWakeSignal);
        constexpr useconds_t kRetryUs = 1000;
        usleep(kRetryUs);
    }
    thread_.join();
}

void Watcher::stop_in_emergency() noexcept {
    if (!thread_.joinable() || pthread_equal(pthread_self(), thread_.native_handle()) != 0) {
        return; // the tracer itself has crashed
    }
    stop_.store(true);
    constexpr int kTries = 2000;
    for (int i = 0; i < kTries && !done_.load(); ++i) {
        pthread_kill(thread_.native_handle(), kWakeSignal);
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

void Watcher::run() {
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, kWakeSignal);
    pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
    Result<void> result;
    try {
        result = watch();
    } catch (const std::exception& broken) {
        // A bug of ours. The destructors have restored the target on the way here.
        result = Error(fmt::format("internal error: {}", broken.what()));
    }
    if (guardian_) {
        guardian_->leave_duty();
    }
    if (!result) {
        const std::lock_guard lock(mutex_);
        error_ = result.error();
    }
    done_.store(true);
    change_state(result ? State::ended : State::failed);
}

Result<std::unique_ptr<Target>> Watcher::prepare(bool again) {
    if (!request_.command.empty() && !again) {
        return Target::launch(request_.command, request_.inherited, new_record());
    }
    const Tid pid = again ? target().pid : request_.pid;
    auto watchable = check_watchable(pid);
    if (!watchable) {
        return std::move(watchable).error();
    }
    if (again && watchable->start_time != start_time_) {
        return Error(fmt::format("process {} is another one by now", pid.value()));
    }
    return std::unique_ptr<Target>();
}

std::shared_ptr<RecoveryRecord> Watcher::new_record() {
    if (guardian_ && !guardian_->take_duty()) {
        log_warning("the guardian process has ended: should memleax be killed, breakpoints stay in "
                    "the target");
        guardian_->leave_duty();
        return RecoveryFile::private_record();
    }
    return guardian_ ? guardian_->file().claim() : RecoveryFile::private_record();
}

Result<void> Watcher::read_modules(Tid pid, bool again) {
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return explain_seize_failure(pid, memory.error().errnum());
    }
    if (again) {
        *memory_ = *std::move(memory); // the module map refers to it
    } else {
        memory_.emplace(*std::move(memory));
        module_map_.emplace(pid, *memory_);
    }
    auto changes = module_map_->refresh();
    if (!changes) {
        return std::move(changes).error();
    }
    for (const auto& module : changes->removed) {
        sink_.on_code_gone(module->range);
    }
    return {};
}

/// What is seized keeps its number, and no exec goes by unseen. Before that the number may have
/// gone to another process, or the process to another program, where our breakpoints would fall
/// anywhere.
Result<void> Watcher::check_still_the_same(Tid pid, const std::optional<ProcessInfo>& looked_at) {
    const auto info = try_read_process_info(pid);
    if (!info || !looked_at || info->start_time != looked_at->start_time) {
        return Error(fmt::format("process {} is another one by now", pid.value()));
    }
    auto changes = module_map_->refresh();
    if (!changes) {
        return std::move(changes).error();
    }
    for (const auto& module : changes->removed) {
        sink_.on_code_gone(module->range);
    }
    return {};
}

Result<void> Watcher::watch() {
    const bool again = module_map_.has_value();
    auto prepared = prepare(again);
    if (!prepared) {
        return std::move(prepared).error();
    }
    std::unique_ptr<Target> target = *std::move(prepared);
    const Tid pid = target ? target->pid() : again ? this->target().pid : request_.pid;
    const auto looked_at = try_read_process_info(pid);
    // Symbols are read while nothing is seized yet: a thread that is born meanwhile does not wait.
    if (auto read = read_modules(pid, again); !read) {
        return read;
    }
    {
        const auto info = try_read_process_info(pid);
        start_time_ = looked_at ? looked_at->start_time : 0;
        const std::lock_guard lock(mutex_);
        target_.pid = pid;
        target_.executable = executable_path(pid);
        target_.comm = info ? info->comm : std::string("?");
    }
    if (!has_allocator(*module_map_) && (!target || is_static(*module_map_))) {
        Error error = no_allocator(pid, *module_map_);
        if (target) {
            kill(pid.value(), SIGKILL); // ours, and it has not executed one instruction
        }
        return error;
    }
    if (!target) {
        auto seized = Target::seize(pid, new_record());
        if (!seized) {
            return std::move(seized).error();
        }
        target = *std::move(seized);
        if (auto same = check_still_the_same(pid, looked_at); !same) {
            return same;
        }
    }
    if (again) {
        sink_.on_gap(monotonic_now());
    }
    const auto engine = make_int3_engine(*target, *module_map_, sink_, *this,
                                         {.backtrace_limit = request_.backtrace_limit});
    {
        const std::lock_guard lock(mutex_);
        target_.engine = engine->name();
        target_.arch = arch::kName;
    }
    auto armed = engine->arm();
    if (!armed) {
        return std::move(armed).error().while_doing(
            fmt::format("cannot watch process {}", pid.value()));
    }
    const EngineEnd end = engine->run(stop_);
    engine->leave();
    const std::lock_guard lock(mutex_);
    end_ = end;
    return {};
}

void Watcher::on_watching(std::size_t threads) {
    {
        const std::lock_guard lock(mutex_);
        target_.threads = threads;
    }
    change_state(State::watching);
}

void Watcher::on_modules(const ModuleMap& modules) {
    Modules copies;
    for (const auto& module : modules.all()) {
        auto copy = std::make_shared<const Module>(*module);
        if (module.get() == modules.main()) {
            copies.main = copy;
        }
        copies.all.push_back(std::move(copy));
    }
    const std::lock_guard lock(mutex_);
    modules_ = std::move(copies);
}

void Watcher::change_state(State state) {
    {
        const std::lock_guard lock(mutex_);
        state_ = state;
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = write(changes_, &one, sizeof one);
}

void Watcher::acknowledge_changes() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto ignored = read(changes_, &count, sizeof count);
}

Watcher::State Watcher::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

Error Watcher::error() const {
    const std::lock_guard lock(mutex_);
    return *error_;
}

WatchedTarget Watcher::target() const {
    const std::lock_guard lock(mutex_);
    return target_;
}

EngineEnd Watcher::end() const {
    const std::lock_guard lock(mutex_);
    return end_;
}

std::optional<Watcher::Modules> Watcher::take_modules() {
    const std::lock_guard lock(mutex_);
    return std::exchange(modules_, std::nullopt);
}

} // namespace memleax
