// SPDX-License-Identifier: GPL-3.0-or-later
/// What a session prints while it runs: live lines, and calls that map memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memleax/session/process_account.hpp"
#include "memleax/session/report_output.hpp"
#include "memleax/session/session_client.hpp"
#include "memleax/session/session_clock.hpp"
#include "memleax/session/session_options.hpp"
#include "memleax/session/stack_filter.hpp"

namespace memleax {

class SessionPrinter {
  public:
    /// All that is passed outlives this. `several`: more than one process may be watched.
    SessionPrinter(const SessionOptions& options, ReportOutput& output, ProcessAccounts& processes,
                   const StackFilter& filter, const SessionClock& clock, bool several)
        : output_(output), processes_(processes), filter_(filter), clock_(clock),
          name_style_(options.name_style), live_lines_(wants_live_lines(options)),
          several_(several) {}

    [[nodiscard]] static bool wants_live_lines(const SessionOptions& options);

    /// Whose terminal it is; null: nobody's.
    void set_client(SessionClient* client) { client_ = client; }
    /// Are calls that map memory printed as they happen?
    void set_live_events(bool live);
    [[nodiscard]] bool prints_events() const { return live_events_; }
    /// Some are left that can be printed now.
    [[nodiscard]] bool has_more();

    /// Hears what the trackers have to tell. `on_limit` is called, before the user is told, when a
    /// limit is reached.
    void take_notices(const std::function<void()>& on_limit);
    /// Prints that, and the calls, unless it has to wait for the client; not if it is the `last`
    /// time.
    void print_news(bool last);
    /// Of the calls that map memory, have all of this process been printed that are to be?
    [[nodiscard]] bool has_told(ProcessAccount& process);

  private:
    [[nodiscard]] bool has_to_wait(bool last) const {
        return client_ != nullptr && client_->holds_output() && !last;
    }
    void print_events(bool all);
    void print(std::string_view text);
    /// With the process's id in front, if there may be several.
    [[nodiscard]] std::string with_process(const ProcessAccount& process,
                                           const std::string& lines) const;

    ReportOutput& output_;
    ProcessAccounts& processes_;
    const StackFilter& filter_;
    const SessionClock& clock_;
    SessionClient* client_ = nullptr;
    NameStyle name_style_;
    bool live_lines_;
    bool several_;
    bool live_events_ = false;
    std::vector<std::pair<ProcessAccount*, Notice>> notices_; ///< not printed yet
    std::map<ProcessAccount*, std::uint64_t> printed_events_; ///< the last one's number
};

} // namespace memleax
