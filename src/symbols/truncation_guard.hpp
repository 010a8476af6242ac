// SPDX-License-Identifier: GPL-3.0-or-later
/// libdw maps the files that it reads, and a mapping of a file that somebody truncates raises
/// SIGBUS where it is touched (mmap(2)). memleax must not die of a rebuilt program: its breakpoints
/// would stay in the target.
#pragma once

namespace memleax {

/// While one lives in a thread, a page that a file has lost reads as zeros there. libdw takes them
/// for damaged data, which it has to cope with anyway: names are missed, nothing else.
///
/// The first one installs a SIGBUS handler for the process; a SIGBUS without a guard does what it
/// did before.
class TruncationGuard {
  public:
    TruncationGuard();
    ~TruncationGuard();
    TruncationGuard(const TruncationGuard&) = delete;
    TruncationGuard& operator=(const TruncationGuard&) = delete;

    /// Has a page been missing since this guard was made?
    [[nodiscard]] bool noticed() const;

  private:
    unsigned pages_before_;
};

} // namespace memleax
