// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/base/log.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// The guardian's, who does without one as long as nobody asks for it.
class OwnUnwinder {
  public:
    /// It must outlive this.
    explicit OwnUnwinder(Target& target)
        : modules_(target.pid(), target.memory()), unwinder_(modules_, target.memory()) {}

    Unwinder& get() {
        if (modules_.main() == nullptr) {
            if (const auto refreshed = modules_.refresh(); !refreshed) {
                log_debug("{}", refreshed.error().message()); // no stack can be followed
            }
            unwinder_.modules_changed();
        }
        return unwinder_;
    }

  private:
    ModuleMap modules_;
    Unwinder unwinder_;
};

} // namespace memleax
