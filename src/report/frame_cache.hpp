// SPDX-License-Identifier: GPL-3.0-or-later
/// What a writer makes of a machine frame is made once: 10^5 call stacks of 50 frames each share
/// some thousand.
#pragma once

#include <utility>

#include <absl/container/flat_hash_map.h>

#include "memleax/events/source_frame.hpp"

namespace memleax {

/// Knows a frame by where its calls are: the report must outlive it.
template <class Value> class FrameCache {
  public:
    /// What `make(frame)` has returned when the frame was met first. The reference is good until
    /// the next call.
    template <class Make> const Value& get(const ResolvedFrame& frame, Make make) {
        const auto known = values_.find(frame.get());
        return known != values_.end() ? known->second
                                      : values_.emplace(frame.get(), make(frame)).first->second;
    }

  private:
    absl::flat_hash_map<ResolvedFrame::element_type*, Value> values_;
};

} // namespace memleax
