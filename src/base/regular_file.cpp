// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/regular_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {

namespace {

/// The file's place alone (O_PATH): nothing happens to what is there.
class Place {
  public:
    explicit Place(int fd) : fd_(fd) {}
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

/// openat2(2), Linux 5.6. Before that links are followed as they are for us, and what is at their
/// end is judged like any other file.
int find_in_root(int root, const std::string& path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT;
    const auto fd = static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
    if (fd < 0 && errno == ENOSYS) {
        return open(fmt::format("/proc/self/fd/{}/{}", root, path).c_str(), O_PATH | O_CLOEXEC);
    }
    return fd;
}

Result<int> open_place(const Place& place, const std::string& path) {
    const auto failure = [&path] { return Error(fmt::format("cannot open {}", path), errno); };
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

} // namespace

Result<int> open_regular_file(const std::string& path) {
    return open_place(Place(open(path.c_str(), O_PATH | O_CLOEXEC)), path);
}

Result<int> open_regular_file_in(int root, const std::string& path) {
    return open_place(Place(find_in_root(root, path)), path);
}

} // namespace memleax
