// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/regular_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace memleax {

namespace {

/// The file's place alone (O_PATH): nothing happens to what is there.
class Place {
  public:
    explicit Place(const std::string& path) : fd_(open(path.c_str(), O_PATH | O_CLOEXEC)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    [[nodiscard]] int fd() const { return fd_; }

  private:
    int fd_;
};

} // namespace

Result<int> open_regular_file(const std::string& path) {
    const auto failure = [&path] { return Error(fmt::format("cannot open {}", path), errno); };
    const Place place(path);
    struct stat status {};
    if (place.fd() < 0 || fstat(place.fd(), &status) != 0) {
        return failure();
    }
    if (!S_ISREG(status.st_mode)) {
        return Error(path + ": not a regular file");
    }
    if (status.st_size == 0) {
        return Error(path + ": the file is empty");
    }
    // open(2), "O_PATH": that is how the same file is opened for reading.
    const int fd = open(fmt::format("/proc/self/fd/{}", place.fd()).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return failure();
    }
    return fd;
}

} // namespace memleax
