// SPDX-License-Identifier: GPL-3.0-or-later
/// The page faults of one process, with call stack and what was touched, while nobody is stopped
/// for it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// The tracer thread's. Its end is the end of the sampling.
class FaultWatch {
  public:
    /// These are all threads that `pid` has; those that they start are sampled, too. Error: for the
    /// user, with what to do. `keeps_pages`: it matters how much each fault has brought in
    /// (PageFault::huge), and not only that there was one.
    static Result<std::unique_ptr<FaultWatch>> begin(Tid pid, const std::vector<Tid>& threads,
                                                     bool keeps_pages);
    ~FaultWatch();
    FaultWatch(const FaultWatch&) = delete;
    FaultWatch& operator=(const FaultWatch&) = delete;

    /// With what a sample becomes an event.
    struct Means {
        Unwinder& unwinder; ///< that knows the modules as they were
        AccountAccess account;
        unsigned backtrace_limit;
        const std::vector<AddrRange>& own; ///< what is ours in the process
    };
    /// Is there anything to tell? Cheap.
    [[nodiscard]] bool any();
    /// Tells all that has happened until now. True: so much does that it should be soon again.
    bool tell(const Means& means);
    /// The same, and what the kernel has counted.
    void tell_last(const Means& means);
    /// The process executes another program: nothing is where it was.
    void on_exec();

  private:
    struct Impl;
    explicit FaultWatch(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace memleax
