// SPDX-License-Identifier: GPL-3.0-or-later
/// A birth is reported twice: by the parent's BirthStop and by the child's own first stop, in
/// either order.
#pragma once

#include <set>

#include "memleax/base/types.hpp"

namespace memleax {

/// The births of one process's threads and children of which only one half has been reported.
class Births {
  public:
    /// The parent has reported it first.
    void expect(Tid child) { expected_.insert(child); }
    /// The child reports itself. Was it expected?
    bool take_expected(Tid child) { return expected_.erase(child) != 0; }
    /// The child has reported itself first.
    void note_early(Tid child) { early_.insert(child); }
    /// The parent reports it. Has the child reported itself before?
    bool take_early(Tid child) { return early_.erase(child) != 0; }
    /// It is gone.
    void forget(Tid child) {
        expected_.erase(child);
        early_.erase(child);
    }
    /// Children that have not yet reported themselves.
    [[nodiscard]] const std::set<Tid>& expected() const { return expected_; }
    template <typename Predicate> void forget_expected_if(const Predicate& predicate) {
        std::erase_if(expected_, predicate);
    }

  private:
    std::set<Tid> expected_;
    std::set<Tid> early_;
};

} // namespace memleax
