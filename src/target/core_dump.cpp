// SPDX-License-Identifier: GPL-3.0-or-later
#include "core_dump.hpp"

#include <poll.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

void CoreDump::on_resume(Tid tid, int signal) {
    if ((signal_bit(signal) & kCoreSignals) != 0) {
        signal_ = {tid, signal};
    }
}

bool CoreDump::is_in_progress() {
    constexpr int kLooks = 200; // of a millisecond; it is a matter of microseconds
    for (int i = 0; signal_ && i < kLooks; ++i) {
        const auto& [tid, signal] = *signal_;
        const auto info = try_read_process_info(tid);
        if (info && info->dumps_core) {
            return true;
        }
        if (!info || info->has_ended() ||
            ((info->caught_signals | info->ignored_signals) & signal_bit(signal)) != 0) {
            break; // or it is over
        }
        poll(nullptr, 0, 1); // the signal is on its way
    }
    signal_.reset();
    return false;
}

} // namespace memleax
