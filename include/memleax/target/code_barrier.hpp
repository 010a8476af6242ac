// SPDX-License-Identifier: GPL-3.0-or-later
/// synchronize_code(). What takes long happens on a thread of its own, while stops are served.
#pragma once

#include <future>

#include "memleax/base/error.hpp"

namespace memleax {

class CodeBarrier {
  public:
    /// For all that was written before: at once, if that can be (visit_all_cpus()). Then it is
    /// over.
    [[nodiscard]] bool pass_at_once();
    /// Or later. One that is under way is waited for.
    void begin();
    /// Also if none has begun.
    [[nodiscard]] bool is_over() const;
    /// Of the one that began last, once it is over.
    Result<void> result();

  private:
    std::future<Result<void>> result_;
    bool may_be_at_once_ = true; ///< until that is in vain once: stops wait meanwhile
};

} // namespace memleax
