// SPDX-License-Identifier: GPL-3.0-or-later
/// One call stack, walked by our own unwinder and by libunwind, of the same thread in the same
/// stop.
#pragma once

#include <mutex>
#include <optional>

#include "memleax/base/types.hpp"

namespace memleax {

/// Somebody wants to see both walks; the tracer thread makes them at the next call that has this
/// stack. The methods may be called from any thread.
class StackComparison {
  public:
    struct Walks {
        StackId own;
        StackId libunwind;
        Tid tid; ///< whose call it was
    };

    explicit StackComparison(StackId wanted) : wanted_(wanted) {}

    /// As it is in the account.
    [[nodiscard]] StackId wanted() const { return wanted_; }
    void set(const Walks& walks) {
        const std::lock_guard lock(mutex_);
        walks_ = walks;
    }
    /// Nothing: no such call has come yet.
    [[nodiscard]] std::optional<Walks> walks() const {
        const std::lock_guard lock(mutex_);
        return walks_;
    }

  private:
    const StackId wanted_;
    mutable std::mutex mutex_;
    std::optional<Walks> walks_;
};

} // namespace memleax
