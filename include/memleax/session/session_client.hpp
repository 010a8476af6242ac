// SPDX-License-Identifier: GPL-3.0-or-later
/// Someone who takes part in a session's loop: the prompt.
#pragma once

namespace memleax {

/// Called in the main thread only, never while the tracker is locked.
class SessionClient {
  public:
    virtual ~SessionClient() = default;

    /// Becomes readable when on_input() has something to do; -1: there is nothing to wait for.
    [[nodiscard]] virtual int input_fd() = 0;
    virtual void on_input() = 0;
    /// The target is being watched; also when that has begun again after a pause.
    virtual void on_watching() = 0;
    /// Watching could not begin again after a pause.
    virtual void on_failure(const char* message) = 0;
    /// The target is about to be let go of: the last chance for commands that need it. The session
    /// waits until busy() is false.
    virtual void on_leaving() = 0;
    /// The target has been let go of, or has ended; `reason` is the report's end_reason. Does the
    /// session go on nevertheless, to look at what was found?
    virtual bool on_left(const char* reason) = 0;
    [[nodiscard]] virtual bool busy() = 0;
    /// Ctrl-C. False: it is to end the session.
    virtual bool on_interrupt() = 0;
    /// The terminal has another size.
    virtual void on_resize() = 0;
    /// Somebody else has the terminal: live lines are to wait.
    [[nodiscard]] virtual bool holds_output() = 0;
    /// Something is about to be printed to the terminal, or has been: what is being typed has to
    /// get out of the way.
    virtual void before_output() = 0;
    virtual void after_output() = 0;
};

} // namespace memleax
