// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/source_frame.hpp"

namespace memleax {

Backtrace::Backtrace(std::initializer_list<SourceFrame> frames) {
    std::vector<SourceFrame> pending;
    for (const SourceFrame& frame : frames) {
        pending.push_back(frame);
        if (!frame.inlined || &frame == frames.end() - 1) {
            frames_.push_back(std::make_shared<const std::vector<SourceFrame>>(std::move(pending)));
            pending.clear();
        }
    }
}

} // namespace memleax
