// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process may wait for in a transfer: its descriptors without O_NONBLOCK.
#pragma once

#include <optional>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Looked for at most once a second, as there may be thousands.
class BlockingDescriptors {
  public:
    explicit BlockingDescriptors(Tid pid) : pid_(pid) {}

    /// True as well if that cannot be known.
    bool any_socket();
    /// Or a terminal, or another device: transfers that may take more of the CPU's time than one
    /// through a pipe does.
    bool any_slow();

  private:
    void look();

    Tid pid_;
    std::optional<MonotonicNs> seen_;
    bool any_socket_ = false;
    bool any_device_ = false;
};

} // namespace memleax
