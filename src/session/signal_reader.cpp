// SPDX-License-Identifier: GPL-3.0-or-later
#include "signal_reader.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

SignalReader::SignalReader(const sigset_t& signals)
    : signals_(signals), changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

SignalReader::~SignalReader() {
    stop_.store(true);
    for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(&signals_, signal) == 1) {
            pthread_kill(thread_.native_handle(), signal); // ends its wait
            break;
        }
    }
    thread_.join();
    close(changed_);
}

void SignalReader::run() {
    for (;;) {
        const int signal = sigwaitinfo(&signals_, nullptr);
        if (stop_.load()) {
            return;
        }
        if (signal > 0) {
            come_.fetch_or(signal_bit(signal));
            eventfd_write(changed_, 1);
        }
    }
}

std::uint64_t SignalReader::take() {
    eventfd_t unused = 0;
    eventfd_read(changed_, &unused);
    return come_.exchange(0);
}

} // namespace memleax
