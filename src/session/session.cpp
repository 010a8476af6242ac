// SPDX-License-Identifier: GPL-3.0-or-later
// The loop: signals, the tracer thread's news, timers, the client.
#include "memleax/session/session.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <ctime>
#include <span>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "emergency.hpp"
#include "heap_look.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/log_relay.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/report/readable.hpp"
#include "session_signals.hpp"
#include "signal_reader.hpp"

namespace memleax {

namespace {

/// Blocks that expire in one piece of work under the lock: some ten microseconds.
constexpr std::size_t kExpireBudget = 256;
/// The main thread looks for expired blocks at most this often, ...
constexpr std::int64_t kMinPauseNs = 20'000'000;
/// ... and at least this often, as nobody tells it of new blocks.
constexpr std::int64_t kMaxPauseNs = kNsPerSecond;
/// ... or this often, if each call that maps memory is to be printed.
constexpr std::int64_t kEventPauseNs = 100'000'000;

std::int64_t unix_now_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

/// As many of them as fit on a line or two.
std::string several_watched_text(const std::vector<ProcessAccount*>& all) {
    constexpr std::size_t kMost = 12;
    std::string text = fmt::format("watching {} processes:", all.size());
    for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i) {
        const ProcessFacts facts = all[i]->facts();
        text += fmt::format("{} {} ({}{})", i == 0 ? "" : ",", facts.pid.value(), facts.comm,
                            facts.stopped ? ", stopped" : "");
    }
    return all.size() > kMost ? fmt::format("{}, and {} more", text, all.size() - kMost) : text;
}

} // namespace

std::string unwinder_text(UnwinderChoice unwinder) {
    return unwinder == UnwinderChoice::own ? "" : fmt::format(", unwinder {}", name_of(unwinder));
}

int Session::run(SessionClient* client) {
    set_client(client);
    SignalReader signals(session_signals(),
                         {[this] { return is_overdue(); }, [this] { leave_by_signal_reader(); },
                          [this] { return watcher_.is_done(); }});
    signals_ = &signals;
    const LogRelay log; // of the tracer thread's lines
    const EmergencyExit restore_the_target(watcher_, accounts_);
    watcher_.start();
    while (!over_) {
        step();
    }
    watcher_.stop();
    if (!clock_.begun() && watcher_.state() == Watcher::State::failed) {
        log_error("{}", watcher_.error().message());
        return 1;
    }
    if (!clock_.begun() && output_.error() == 0) { // else its reader has gone, which is told below
        log_error("interrupted before the watching began");
        return 1;
    }
    const int status = write_report(); // what is known until then is worth having
    return failed_ ? 1 : status;
}

void Session::set_client(SessionClient* client) {
    client_ = client;
    printer_.set_client(client);
}

void Session::print_news() {
    printer_.take_notices([this] { begin_leaving("limit"); });
    printer_.print_news(ending_);
}

void Session::step() {
    const int input = client_ != nullptr && phase_ != Phase::starting ? client_->input_fd() : -1;
    // A reader that goes is not only found out by what would be written next: that may never come.
    const int output = output_.error() == 0 ? output_.fd() : -1;
    std::vector<pollfd> ready{{signals_->fd(), POLLIN, 0},
                              {watcher_.changes_fd(), POLLIN, 0},
                              {input, POLLIN, 0},
                              {output, 0, 0}};
    const std::size_t own = ready.size();
    thresholds_.add_to_poll(&ready);
    if (poll(ready.data(), ready.size(), pause_ms(monotonic_now())) < 0 && errno != EINTR) {
        end("user"); // cannot happen; but the target comes first
    }
    if ((ready[3].revents & (POLLERR | POLLHUP)) != 0) { // a pipe's, a socket's
        output_.lose_reader();
    }
    on_signals();
    on_change();
    if (phase_ == Phase::watching && !is_about_to_leave()) { // which comes first
        const MonotonicNs time = monotonic_now();
        expire(time);
        memory_.sample(time, seconds_since_start(time));
        stops_.sample(time);
        for (const ThresholdPassed& passed :
             thresholds_.take(time, std::span(ready).subspan(own))) {
            save_report(passed);
        }
        if (deadline_ && time >= *deadline_) {
            end("time");
        }
    }
    print_news();
    retire_ended();
    if (output_.error() != 0) {
        end("user"); // nobody reads us any more
    }
    if (client_ != nullptr && !over_ && input >= 0 && ready[2].revents != 0) {
        client_->on_input();
    }
    if (end_reason_ != nullptr) {
        finish_leaving();
    }
}

/// Somebody wants a name, and a server is slow. True: do not wait for it. The signal itself is
/// step()'s to take.
bool Session::on_download() {
    const auto time = monotonic_now();
    if (phase_ == Phase::watching && deadline_ && time >= *deadline_ && !clock_.is_frozen()) {
        watcher_.stop(); // the target is let go of in time, and the download goes on
        clock_.freeze(time);
    }
    return std::any_of(std::begin(kEndingSignals), std::end(kEndingSignals),
                       [this](int signal) { return (signals_->come() & signal_bit(signal)) != 0; });
}

int Session::pause_ms(MonotonicNs now) {
    std::int64_t pause = std::min(kMaxPauseNs, std::max(expire_ns_, kMinPauseNs));
    if (phase_ == Phase::watching) {
        pause = std::min(pause, std::max<std::int64_t>(stops_.due().value() - now.value(), 0));
        for (ProcessAccount* process : accounts_.active()) {
            const auto next = process->tracker().with([](Tracker& t) { return t.next_expiry(); });
            if (next && process->time(*next) == *next) { // it has not ended before
                pause = std::min(pause, std::max(next->value() - now.value(), kMinPauseNs));
            }
        }
    }
    if (printer_.prints_events()) {
        pause = printer_.has_more() ? 0 : std::min(pause, kEventPauseNs);
    }
    if (deadline_ && phase_ == Phase::watching) {
        pause = std::min(pause, std::max<std::int64_t>(deadline_->value() - now.value(), 0));
    }
    if (end_reason_ != nullptr && phase_ != Phase::left) {
        pause = std::min(pause, kMinPauseNs);
    }
    constexpr std::int64_t kNsPerMs = 1'000'000;
    return static_cast<int>((pause + kNsPerMs - 1) / kNsPerMs);
}

void Session::on_signals() {
    for (std::uint64_t come = signals_->take(); come != 0; come &= come - 1) {
        switch (std::countr_zero(come) + 1) {
        case SIGTSTP:
            log_warning("not stopped: the target would stand still with memleax; end it by Ctrl-C");
            break;
        case SIGWINCH:
            if (client_ != nullptr) {
                client_->on_resize();
            }
            break;
        case SIGINT:
            if (client_ != nullptr && phase_ != Phase::starting && client_->on_interrupt()) {
                break;
            }
            [[fallthrough]];
        default:
            // A second one does not wait for what the client still wants to do.
            if (ending_ && client_ != nullptr) {
                set_client(nullptr);
            }
            end("user");
        }
    }
}

void Session::on_change() {
    watcher_.acknowledge_changes();
    const Watcher::State state = watcher_.state();
    if (phase_ == Phase::starting && state != Watcher::State::starting &&
        state != Watcher::State::failed) {
        phase_ = Phase::watching;
        clock_.thaw();
        if (!clock_.begun()) {
            on_first_watching();
        }
        if (client_ != nullptr) {
            client_->on_watching();
        }
    }
    if (state == Watcher::State::failed && phase_ == Phase::starting) {
        if (clock_.begun() && client_ != nullptr) { // in vain, after a pause
            watcher_.stop();
            phase_ = Phase::paused;
            client_->on_failure(watcher_.error().message().c_str());
        } else {
            over_ = true;
        }
    } else if (state == Watcher::State::failed && phase_ == Phase::watching) {
        log_error("{}", watcher_.error().message());
        failed_ = true;
        end("error");
    } else if (state == Watcher::State::ended && phase_ == Phase::watching && clock_.is_frozen()) {
        end("time"); // on_download() has let go of it
    } else if (state == Watcher::State::ended && phase_ == Phase::watching && left_at_ != 0 &&
               watcher_.end() != WatchEnd::target_gone) {
        clock_.freeze(MonotonicNs(left_at_));
        end(is_overdue() ? "time" : "user");
    } else if (state == Watcher::State::ended && phase_ == Phase::watching) {
        begin_leaving(watcher_.end() == WatchEnd::target_gone ? "target-exit" : "user");
    }
}

bool Session::is_overdue() const {
    return monotonic_now().value() >= leave_at_;
}

void Session::leave_by_signal_reader() {
    if (watcher_.is_done()) {
        return;
    }
    std::int64_t never = 0;
    left_at_.compare_exchange_strong(never, monotonic_now().value());
    watcher_.begin_stop();
}

void Session::on_first_watching() {
    const MonotonicNs now = monotonic_now();
    clock_.begin(now, unix_now_ns());
    if (options_.time_s) {
        deadline_ = MonotonicNs(now.value() + nanoseconds(*options_.time_s));
        leave_at_ = deadline_->value();
    }
    const auto all = accounts_.all();
    if (all.size() > 1) {
        announce(several_watched_text(all) + unwinder_text(options_.unwinder));
        return;
    }
    const ProcessFacts target = accounts_.first()->facts();
    announce(fmt::format("watching {} ({}, {}, engine {}{}){}", target.pid.value(), target.comm,
                         number_of(target.threads, "thread"), target.engine,
                         unwinder_text(options_.unwinder),
                         target.stopped ? "; it is stopped, until it gets SIGCONT" : ""));
}

void Session::set_expire_s(double seconds) {
    expire_ns_ = nanoseconds(seconds);
    accounts_.set_expire_ns(expire_ns_);
}

Result<std::shared_ptr<StackComparison>> Session::compare_walks(ProcessAccount& process,
                                                                StackId stack) {
    auto comparison = std::make_shared<StackComparison>(stack);
    auto asked = watcher_.perform(process.pid(), TargetState::as_it_is,
                                  [&](TargetInHand& hand) { hand.watch.compare(comparison); });
    if (!asked) {
        return std::move(asked).error();
    }
    return comparison;
}

void Session::pause() {
    watcher_.stop();
    if (watcher_.state() == Watcher::State::failed || watcher_.end() == WatchEnd::target_gone) {
        on_change(); // it has ended just now
        return;
    }
    clock_.freeze(monotonic_now());
    phase_ = Phase::paused;
}

void Session::resume() {
    left_at_ = 0;
    phase_ = Phase::starting;
    watcher_.start();
}

void Session::leave(const char* reason) {
    begin_leaving(reason);
}

void Session::end(const char* reason) {
    ending_ = true;
    begin_leaving(reason);
}

void Session::begin_leaving(const char* reason) {
    if (end_reason_ != nullptr) {
        return;
    }
    end_reason_ = reason;
    deadline_.reset();
    if (client_ != nullptr && clock_.begun()) {
        client_->on_leaving();
    }
}

bool Session::is_about_to_leave() {
    return end_reason_ != nullptr && (client_ == nullptr || !client_->busy());
}

void Session::finish_leaving() {
    if (!is_about_to_leave()) {
        return;
    }
    if (phase_ != Phase::left) {
        check_mappings();
        look_at_heaps();
        watcher_.begin_stop();
        look_at_memory();
        watcher_.stop();
        if (!clock_.is_frozen()) {
            clock_.freeze(monotonic_now());
        }
        expire(clock_.now());
        print_news();
        const bool begun = clock_.begun().has_value();
        phase_ = Phase::left;
        if (!begun || ending_ || client_ == nullptr || !client_->on_left(end_reason_)) {
            over_ = true;
        }
    }
    over_ = over_ || ending_;
}

Result<HeapView*> Session::look_at_heap(ProcessAccount& process) {
    return memleax::look_at_heap(process, watcher_, options_, phase_ == Phase::watching);
}

void Session::look_at_heaps() {
    if (!options_.leak_check || std::exchange(has_looked_at_heaps_, true)) {
        return;
    }
    for (ProcessAccount* process : accounts_.all()) {
        if (const auto looked = look_at_heap(*process); !looked) {
            log_warning("{}", looked.error().message());
        }
    }
}

void Session::expire(MonotonicNs now) {
    for (ProcessAccount* process : accounts_.active()) {
        const MonotonicNs time = process->time(now);
        while (
            process->tracker().with([time](Tracker& t) { return t.expire(time, kExpireBudget); })) {
        }
    }
}

void Session::retire_ended() {
    if (phase_ != Phase::watching || clock_.is_frozen()) {
        return; // what is known may end before a process did
    }
    accounts_.retire_if(
        [this](ProcessAccount& process) { return printer_.has_told(process) && process.settle(); });
}

bool Session::shows(StackId id) {
    return filter_.empty() || filter_.shows(names().resolve(id));
}

} // namespace memleax
