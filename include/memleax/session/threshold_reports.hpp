// SPDX-License-Identifier: GPL-3.0-or-later
/// The files of reports that are saved when a threshold is passed.
#pragma once

#include <map>
#include <string>

#include "memleax/base/error.hpp"
#include "memleax/report/report.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

/// Named by --at-output, in which %p is the process's number and %% a percent sign; else after the
/// report's own file ("report.html": "report-at-memory.html"), or, where it has none,
/// "memleax-4711-at-memory.txt". The second one that would get the same name has "-2" in it.
class ThresholdReports {
  public:
    /// `several`: more than one process may be watched; then names have the number of one.
    ThresholdReports(const SessionOptions& options, bool several)
        : options_(options), several_(several) {}

    /// Is there a folder that we may write to, and is --at-output's name in it free for us:
    /// nothing, or what we may write to, but no folder? It may be days until a report is to be
    /// saved.
    static Result<void> check(const SessionOptions& options);

    /// The name for the next one.
    std::string next_path(const ThresholdPassed& passed);
    /// Returns the file's name. It is there as a whole or not at all: its name is given to it when
    /// it is complete.
    Result<std::string> save(const Report& report, const ThresholdPassed& passed);

  private:
    const SessionOptions& options_;
    bool several_;
    std::map<std::string, unsigned> used_; ///< names, without the number
};

} // namespace memleax
