// SPDX-License-Identifier: GPL-3.0-or-later
/// Frees within frees: an interposer's that calls the real one must not count twice, and no
/// engine tells when a free is over.
#pragma once

#include <optional>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/calls/call.hpp"
#include "memleax/events/event_sink.hpp"

namespace memleax {

/// A call that ends a block.
struct FreeingCall {
    CodeAddr entry;
    AddrRange code; ///< of the function
    RemoteAddr sp_after_return;
    RemoteAddr block;
    CodeAddr caller; ///< where it returns to; null if that is not known
};

/// One thread's, of one family.
class NestedFrees {
  public:
    /// This one has been counted; it is the last.
    void note(const FreeingCall& counted) { last_ = counted; }
    /// The thread allocates: its last free is over.
    void forget_last() { last_.reset(); }
    /// The last one may go on when a handler, which frees as well, has returned.
    void signal_delivered();
    /// Is this call, of what is not live, a part of one that has been counted?
    [[nodiscard]] bool is_part(const FreeingCall& call, CallSite& site, AccountQueries& queries);

  private:
    std::optional<FreeingCall> last_;
    std::vector<FreeingCall> interrupted_; ///< each by a signal; the newest first
};

} // namespace memleax
