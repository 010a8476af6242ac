// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "memleax/clock.hpp"
#include "memleax/fill_report.hpp"
#include "memleax/live_lines.hpp"
#include "memleax/log.hpp"
#include "memleax/report_writer.hpp"
#include "memleax/symbolizer.hpp"
#include "memleax/watcher.hpp"
#include "report_output.hpp"
#include "session_signals.hpp"
#include "shared_tracker.hpp"

namespace memleax {

namespace {

/// Blocks that expire in one piece of work under the lock: some ten microseconds.
constexpr std::size_t kExpireBudget = 256;
/// The main thread looks for expired blocks at most this often, ...
constexpr std::int64_t kMinPauseNs = 20'000'000;
/// ... and at least this often, as nobody tells it of new blocks.
constexpr std::int64_t kMaxPauseNs = kNsPerSecond;

/// Everything of a session but the tracer thread.
class Session {
  public:
    Session(const Options& options, ReportOutput output, WatchRequest request)
        : options_(options), output_(std::move(output)),
          expire_ns_(static_cast<std::int64_t>(options.expire_s * kNsPerSecond)),
          live_lines_(options.format->write == write_text && !options.quiet),
          tracker_({.expire_ns = expire_ns_,
                    .memory_block_max = options.memory_block_max,
                    .call_stack_max = options.call_stack_max,
                    .notices = live_lines_}),
          symbolizer_({.main_debug_file = options.debug_info}),
          watcher_(std::move(request), tracker_) {}

    int run();

  private:
    void loop(int signals);
    void read_signal(int signals);
    void on_change();
    void expire(MonotonicNs now);
    void print_notices();
    void print(const Notice& notice);
    [[nodiscard]] int pause_ms(MonotonicNs now);
    Backtrace resolve(StackId id, StackEnd* end = nullptr);
    void end(const char* reason);
    int report();

    const Options& options_;
    ReportOutput output_;
    std::int64_t expire_ns_;
    bool live_lines_;
    SharedTracker tracker_;
    Symbolizer symbolizer_;
    Watcher watcher_;
    std::optional<MonotonicNs> watching_since_;
    std::optional<MonotonicNs> deadline_;
    const char* end_reason_ = nullptr; ///< set: the session is over
};

int Session::run() {
    const sigset_t set = session_signals();
    const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    watcher_.start();
    loop(signals);
    watcher_.stop();
    close(signals);
    if (watcher_.state() == Watcher::State::failed) {
        log_error("{}", watcher_.error().message());
        return 1;
    }
    return report();
}

void Session::loop(int signals) {
    while (end_reason_ == nullptr) {
        pollfd ready[] = {{signals, POLLIN, 0}, {watcher_.changes_fd(), POLLIN, 0}};
        if (poll(ready, 2, pause_ms(monotonic_now())) < 0 && errno != EINTR) {
            end("user"); // cannot happen; but the target comes first
        }
        read_signal(signals);
        on_change();
        if (!watching_since_ || end_reason_ != nullptr) {
            continue;
        }
        const MonotonicNs now = monotonic_now();
        expire(now);
        print_notices();
        if (deadline_ && now >= *deadline_) {
            end("time");
        }
        if (output_.error() != 0) {
            end("user"); // nobody reads us any more
        }
    }
}

void Session::end(const char* reason) {
    if (end_reason_ == nullptr) {
        end_reason_ = reason;
    }
}

void Session::read_signal(int signals) {
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) {
            log_warning("not stopped: the target would stand still with memleax; end it by Ctrl-C");
        } else {
            end("user");
        }
    }
}

void Session::on_change() {
    watcher_.acknowledge_changes();
    const Watcher::State state = watcher_.state();
    if (state != Watcher::State::starting && state != Watcher::State::failed && !watching_since_) {
        watching_since_ = monotonic_now();
        if (options_.time_s) {
            deadline_ = MonotonicNs(watching_since_->value() +
                                    static_cast<std::int64_t>(*options_.time_s * kNsPerSecond));
        }
        const WatchedTarget target = watcher_.target();
        announce(fmt::format("watching {} ({}, {} thread{}, engine {})", target.pid.value(),
                             target.comm, target.threads, target.threads == 1 ? "" : "s",
                             target.engine));
    }
    if (state == Watcher::State::failed) {
        end("error");
    } else if (state == Watcher::State::ended) {
        end(watcher_.end() == EngineEnd::target_gone ? "target-exit" : "user");
    }
}

int Session::pause_ms(MonotonicNs now) {
    std::int64_t pause = std::min(kMaxPauseNs, std::max(expire_ns_, kMinPauseNs));
    if (const auto next = tracker_.with([](Tracker& t) { return t.next_expiry(); })) {
        pause = std::clamp(next->value() - now.value(), kMinPauseNs, pause);
    }
    if (deadline_) {
        pause = std::min(pause, std::max<std::int64_t>(deadline_->value() - now.value(), 0));
    }
    constexpr std::int64_t kNsPerMs = 1'000'000;
    return static_cast<int>((pause + kNsPerMs - 1) / kNsPerMs);
}

void Session::expire(MonotonicNs now) {
    while (tracker_.with([now](Tracker& t) { return t.expire(now, kExpireBudget); })) {
    }
}

void Session::print_notices() {
    for (const Notice& notice : tracker_.with([](Tracker& t) { return t.take_notices(); })) {
        if (notice.kind == Notice::Kind::block_limit || notice.kind == Notice::Kind::stack_limit) {
            end("limit");
        }
        if (live_lines_) {
            print(notice);
        }
    }
}

void Session::print(const Notice& notice) {
    StackEnd stack_end = StackEnd::outermost;
    switch (notice.kind) {
    case Notice::Kind::expired:
        if (notice.count == 1) {
            const auto frames = resolve(notice.stack, &stack_end);
            output_.write(expired_first(notice.id, notice.size, frames, stack_end));
        } else {
            output_.write(expired_again(notice.id, notice.size, notice.count));
        }
        break;
    case Notice::Kind::expired_freed:
        output_.write(freed_after_expiry(notice.id, seconds(notice.age)));
        break;
    case Notice::Kind::too_many_expired_free:
        output_.write(too_many_expired_free(notice.id));
        break;
    case Notice::Kind::double_free:
        output_.write(
            double_free(notice.address,
                        notice.free_stack == kNoStack ? Backtrace{} : resolve(notice.free_stack),
                        resolve(notice.stack)));
        break;
    case Notice::Kind::block_limit:
        output_.write(block_limit_reached(notice.id, notice.count));
        break;
    case Notice::Kind::stack_limit:
        output_.write(stack_limit_reached(notice.count));
        break;
    }
}

Backtrace Session::resolve(StackId id, StackEnd* end) {
    // Before the frames: what is loaded when a stack is recorded has been told by then.
    if (auto modules = watcher_.take_modules()) {
        symbolizer_.set_modules(std::move(modules->all), modules->main.get());
    }
    std::vector<FrameAddress> addresses;
    Generation generation = 0;
    tracker_.with([&](Tracker& t) {
        const auto frames = t.stacks().frames(id);
        addresses.assign(frames.begin(), frames.end());
        generation = t.stacks().generation(id);
        if (end != nullptr) {
            *end = t.stacks().end(id);
        }
    });
    std::vector<ResolvedFrame> frames;
    frames.reserve(addresses.size());
    for (const FrameAddress address : addresses) {
        frames.push_back(symbolizer_.resolve(address, generation));
    }
    return Backtrace(std::move(frames));
}

int Session::report() {
    const MonotonicNs now = monotonic_now();
    expire(now);
    print_notices();

    const WatchedTarget target = watcher_.target();
    Report report;
    report.version = MEMLEAX_VERSION;
    report.target = {target.pid.value(), target.executable, target.arch, target.threads};
    report.session.engine = target.engine;
    report.session.duration_s =
        watching_since_ ? seconds(now.value() - watching_since_->value()) : 0;
    report.session.expire_s = options_.expire_s;
    report.session.end_reason = end_reason_;
    // The tracer thread has ended: nobody else is at the tracker any more.
    Tracker& tracker = tracker_.alone();
    fill_report(
        tracker, now, [this](StackId id) { return resolve(id); }, &report);
    if (tracker.missed_frees() != 0) {
        log_debug("{} blocks were freed without our seeing it", tracker.missed_frees());
    }
    options_.format->write(report, output_);
    if (output_.error() != 0) {
        log_error("{}", Error("cannot write the report", output_.error()).message());
        return 1;
    }
    return report.totals.expired.blocks > 0 ? options_.error_exitcode : 0;
}

} // namespace

int run_session(const Options& options, const Inherited& inherited) {
    // What can fail without the target comes before it is touched.
    if (!options.debug_info.empty()) {
        const auto usable = Symbolizer::check_debug_file(options.debug_info);
        if (!usable) {
            log_error("{}", usable.error().message());
            return 1;
        }
    }
    auto output = ReportOutput::open(options.output);
    if (!output) {
        log_error("{}", output.error().message());
        return 1;
    }
    WatchRequest request;
    request.pid = Tid(options.pid.value_or(0));
    request.command = options.command;
    request.inherited = inherited;
    request.backtrace_limit = options.backtrace_limit;
    return Session(options, *std::move(output), std::move(request)).run();
}

} // namespace memleax
