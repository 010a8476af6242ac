// SPDX-License-Identifier: GPL-3.0-or-later
// What can be found wrong before anything begins.
#include <utility>

#include "chosen_processes.hpp"
#include "debug_options.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/spare_descriptors.hpp"
#include "memleax/session/session.hpp"
#include "session_signals.hpp"

namespace memleax {

namespace {

bool may_be_several(const std::vector<Tid>& pids, const SessionOptions& options) {
    return options.follow_forks || options.children || pids.size() > 1;
}

WatchRequest request_of(const std::vector<Tid>& pids, const SessionOptions& options,
                        const SpawnAttributes& inherited) {
    WatchRequest request;
    request.pids = pids;
    request.command = options.command;
    request.inherited = inherited;
    request.options = {.backtrace_limit = options.backtrace_limit,
                       .follow = options.follow_forks,
                       .children = options.children,
                       .several = may_be_several(pids, options),
                       .allocators = options.allocators,
                       .debug_sources = {.folders = options.debug_folders, .debuginfod = nullptr},
                       .debug_file = options.debug_info,
                       .check = options.check,
                       .engine = options.engine,
                       .unwinder = options.unwinder};
    return request;
}

} // namespace

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options,
                                               const SpawnAttributes& inherited) {
    const SignalsLetThrough until_it_runs(inherited.signal_mask);
    if (auto enough = check_descriptors(); !enough) {
        return std::move(enough).error();
    }
    if (auto usable = check_debug_options(options); !usable) {
        return std::move(usable).error();
    }
    const auto pids = chosen_processes(options);
    if (!pids) {
        return pids.error();
    }
    if (auto usable = ThresholdWatch::check(options, *pids); !usable) {
        return std::move(usable).error();
    }
    if (auto writable = ThresholdReports::check(options); !writable) {
        return std::move(writable).error();
    }
    auto output = ReportOutput::open(options.output);
    if (!output) {
        return std::move(output).error();
    }
    return std::unique_ptr<Session>(new Session(*pids, options, *std::move(output), inherited));
}

Session::Session(const std::vector<Tid>& pids, const SessionOptions& options, ReportOutput output,
                 const SpawnAttributes& inherited)
    : options_(options), inherited_(inherited), several_(may_be_several(pids, options)),
      output_(std::move(output)), debuginfod_(Debuginfod::from_environment()),
      expire_ns_(nanoseconds(options.expire_s)),
      accounts_({.expire_ns = expire_ns_,
                 .memory_block_max = options.memory_block_max,
                 .call_stack_max = options.call_stack_max,
                 .notices = SessionPrinter::wants_live_lines(options),
                 .check = options.check},
                options.debug_info, {options.debug_folders, debuginfod_}),
      wrappers_(options.skip), watcher_(request_of(pids, options, inherited), accounts_),
      printer_(options, output_, accounts_, filter_, clock_, several_), memory_(accounts_),
      stops_(accounts_), thresholds_(options, accounts_), threshold_reports_(options, several_) {
    set_live_events(options.events);
    if (debuginfod_ != nullptr) {
        debuginfod_->set_give_up([this] { return on_download(); });
    }
}

} // namespace memleax
