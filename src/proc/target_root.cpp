// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/target_root.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/base/regular_file.hpp"
#include "memleax/base/spare_descriptors.hpp"

namespace memleax {

TargetRoot::Identity TargetRoot::identity_of(const std::string& process) {
    Identity identity;
    struct stat status {};
    if (stat((process + "/root/.").c_str(), &status) == 0) {
        identity.device = status.st_dev;
        identity.inode = status.st_ino;
    }
    if (stat((process + "/ns/mnt").c_str(), &status) == 0) {
        identity.mount_namespace = status.st_ino;
    }
    return identity;
}

std::shared_ptr<const TargetRoot> TargetRoot::of(Tid thread,
                                                 std::shared_ptr<const TargetRoot> known) {
    const std::string process = fmt::format("/proc/{}", thread.value());
    const Identity identity = identity_of(process);
    if (identity.inode == 0) { // it has ended, or is not ours to look at
        return known;
    }
    if (known != nullptr && known->identity_ == identity) {
        return known;
    }
    static const Identity own = identity_of("/proc/self");
    if (identity == own) {
        return nullptr;
    }
    const int fd = open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || is_spare_descriptor(fd)) {
        if (fd >= 0) {
            close(fd);
        }
        return nullptr;
    }
    return std::shared_ptr<const TargetRoot>(new TargetRoot(fd, identity));
}

TargetRoot::~TargetRoot() {
    close(fd_);
}

Result<int> TargetRoot::open_file(const std::string& path) const {
    return open_regular_file_in(fd_, path);
}

} // namespace memleax
