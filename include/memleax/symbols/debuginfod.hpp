// SPDX-License-Identifier: GPL-3.0-or-later
/// Debug information from a server (debuginfod(8)), by build-id.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "memleax/base/clock.hpp"

namespace memleax {

/// Downloads wait for others, so this is for the thread that resolves names, and never for the one
/// that handles stops. Belongs to one thread.
class Debuginfod {
  public:
    /// Null if the environment's DEBUGINFOD_URLS is not set. Loads nothing yet.
    static std::shared_ptr<Debuginfod> from_environment();
    ~Debuginfod();
    Debuginfod(const Debuginfod&) = delete;
    Debuginfod& operator=(const Debuginfod&) = delete;

    /// Called once a second or more often during a download; true ends it, and there is no other.
    void set_give_up(std::function<bool()> give_up) { give_up_ = std::move(give_up); }

    /// The path of a file in the client's cache (DEBUGINFOD_CACHE_PATH), fetched if it is not
    /// there. `module` is for people: what is fetched for. Nothing if no server has it, none
    /// answers in time, or somebody gave up.
    std::optional<std::string> fetch(const std::string& build_id, const std::string& module);

  private:
    struct Library;
    Debuginfod() = default;
    bool load();
    static int on_progress(void* client, long have, long all);
    bool should_end(long have, long all);
    void show(long have, long all);
    void clear_line();

    std::function<bool()> give_up_;
    std::unique_ptr<Library> library_;
    bool useless_ = false; ///< not installed, given up, or no answer: nobody is asked again
    // Of the download that is going on:
    std::string module_;
    long have_ = 0;
    MonotonicNs last_bytes_;
    MonotonicNs last_shown_;
    bool shown_ = false;
};

} // namespace memleax
