// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/output_wait.hpp"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace memleax {

int write_and_wait(int fd, const char* bytes, std::uint64_t size) {
    constexpr std::uint64_t kPiece = 1024; // a serial line takes a tenth of a second for it
    const OutputWait wait;
    while (size > 0) {
        const ssize_t written = write(fd, bytes, std::min(size, kPiece));
        if (written > 0) {
            bytes += written;
            size -= static_cast<std::uint64_t>(written);
            wait.note_progress();
        } else if (written < 0 && errno == EAGAIN) {
            pollfd ready{fd, POLLOUT, 0};
            poll(&ready, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            return written == 0 ? EIO : errno;
        }
    }
    return 0;
}

} // namespace memleax
