// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/watcher.hpp"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/log_relay.hpp"
#include "memleax/base/thrown_text.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

namespace {

/// Lets this thread run before others, if we may (root), for as long as it lives. While we attach
/// and leave, threads of the target stand still for us; and where a hundred of them compute, we
/// would be the hundred and first. Not while we watch: polling for stops would take their CPU.
class Urgently {
  public:
    Urgently() : before_(getpriority(PRIO_PROCESS, 0)) {
        constexpr int kHighest = -20;
        setpriority(PRIO_PROCESS, 0, kHighest); // of the calling thread, on Linux
    }
    ~Urgently() { setpriority(PRIO_PROCESS, 0, before_); }
    Urgently(const Urgently&) = delete;
    Urgently& operator=(const Urgently&) = delete;

  private:
    int before_;
};

} // namespace

Watcher::Watcher(WatchRequest request, ProcessAccounts& accounts)
    : request_(std::move(request)), accounts_(accounts),
      changes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), tree_(*this, request_.options) {
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

void Watcher::begin_stop() {
    stop_.store(true);
    if (const pid_t tid = tracer_tid_.load(); tid != 0) {
        tgkill(getpid(), tid, kWakeSignal); // it may have ended just now
    }
}

void Watcher::stop() {
    stop_.store(true);
    if (!thread_.joinable()) {
        return;
    }
    // The signal may come just before the thread begins to wait, and be lost: so again, until it
    // has been understood.
    while (!done_.load()) {
        begin_stop();
        constexpr useconds_t kRetryUs = 1000;
        usleep(kRetryUs);
    }
    thread_.join();
}

void Watcher::stop_in_emergency() noexcept {
    if (!thread_.joinable() || is_tracer_thread()) {
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
    log_without_waiting(); // the targets would, too
    tracer_tid_.store(gettid());
    Result<void> result;
    try {
        result = watch();
    } catch (const std::exception& broken) {
        // A bug of ours, or no memory. The targets have been left on the way here.
        result = Error(thrown_text(broken));
    }
    if (guardian_) {
        guardian_->leave_duty();
    }
    if (!result) {
        const std::lock_guard lock(mutex_);
        error_ = result.error();
    }
    tracer_tid_.store(0);
    done_.store(true);
    change_state(result ? State::ended : State::failed);
}

bool Watcher::is_tracer_thread() const noexcept {
    return thread_.get_id() == std::this_thread::get_id();
}

Result<void> Watcher::watch() {
    const bool guarded = guardian_ && guardian_->take_duty();
    if (guardian_ && !guarded) {
        log_warning("the guardian process has ended: should memleax be killed, breakpoints stay in "
                    "the target");
    }
    if (has_begun_ && tree_.empty()) { // all of them have ended
        const std::lock_guard lock(mutex_);
        end_ = WatchEnd::target_gone;
        return {};
    }
    Tracer tracer(guarded ? &guardian_->file() : nullptr);
    Result<WatchEnd> end = WatchEnd::requested;
    try {
        if (auto begun = begin(tracer); !begun) {
            return begun;
        }
        has_begun_ = true;
        end = tree_.run(tracer, stop_);
    } catch (...) {
        leave(); // before the tracer goes
        throw;
    }
    leave();
    if (!end) {
        return std::move(end).error();
    }
    const std::lock_guard lock(mutex_);
    end_ = *end;
    return {};
}

// An exception out of here ends us: the guardian is on duty, and goes on with what is left.
void Watcher::leave() noexcept { // NOLINT(bugprone-exception-escape)
    const Urgently urgently;
    tree_.leave();
}

Result<void> Watcher::begin(Tracer& tracer) {
    const bool launches = tree_.empty() && !request_.command.empty();
    std::optional<Urgently> urgently;
    if (!launches) { // what is launched has our priority
        urgently.emplace();
    }
    if (!tree_.empty()) {
        return tree_.resume(tracer, stop_);
    }
    return launches ? tree_.launch(tracer, request_.command, request_.inherited)
                    : tree_.attach(tracer, request_.pids, stop_);
}

void Watcher::change_state(State state) {
    {
        const std::lock_guard lock(mutex_);
        state_ = state;
        changed_.notify_all();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = write(changes_, &one, sizeof one);
}

void Watcher::acknowledge_changes() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto ignored = read(changes_, &count, sizeof count);
}

void Watcher::bring_up_to_date() {
    constexpr std::chrono::milliseconds kMost(500); // while it attaches to a child, say
    if (request_.options.engine == EngineChoice::int3 &&
        !request_.options.allocators->tracked().faults) {
        return;
    }
    std::unique_lock lock(mutex_);
    const std::uint64_t number = ++asked_;
    changed_.wait_for(lock, kMost,
                      [&] { return answered_ >= number || state_ != State::watching; });
}

void Watcher::before_tick() {
    const std::lock_guard lock(mutex_);
    looking_ = asked_;
}

void Watcher::after_tick() {
    const std::lock_guard lock(mutex_);
    if (answered_ != looking_) {
        answered_ = looking_;
        changed_.notify_all();
    }
}

Result<void> Watcher::perform(Tid pid, TargetState state, const TargetWork& work) {
    constexpr std::chrono::milliseconds kRetry(1);
    Request request{pid, state, &work, std::nullopt};
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return request.result || state_ != State::watching; };
    request_of_main_ = &request;
    is_requested_.store(true);
    while (!is_over()) {
        // As in stop(): it may come just before the thread begins to wait.
        if (is_requested_.load() && thread_.joinable()) {
            pthread_kill(thread_.native_handle(), kWakeSignal);
        }
        changed_.wait_for(lock, kRetry);
    }
    // Taken back, unless it is being dealt with: the tracer thread sets the state after that.
    request_of_main_ = nullptr;
    is_requested_.store(false);
    return request.result
               ? *std::move(request.result)
               : Error(fmt::format("process {} is not watched any more", pid.value()), ESRCH);
}

void Watcher::between_stops() {
    if (!is_requested_.load(std::memory_order_relaxed)) {
        return;
    }
    Request* request = nullptr;
    {
        const std::lock_guard lock(mutex_);
        request = is_requested_.exchange(false) ? request_of_main_ : nullptr;
    }
    if (request != nullptr) {
        Result<void> result = serve(request->pid, request->state, *request->work);
        const std::lock_guard lock(mutex_);
        request->result = std::move(result);
        changed_.notify_all();
    }
}

Result<void> Watcher::serve(Tid pid, TargetState state, const TargetWork& work) {
    try {
        return tree_.perform(pid, state, work);
    } catch (const std::exception& broken) { // of ours; the target is as the engine has it
        return Error(thrown_text(broken));
    }
}

Watcher::State Watcher::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

Error Watcher::error() const {
    const std::lock_guard lock(mutex_);
    return *error_;
}

WatchEnd Watcher::end() const {
    const std::lock_guard lock(mutex_);
    return end_;
}

} // namespace memleax
