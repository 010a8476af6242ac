// SPDX-License-Identifier: GPL-3.0-or-later
/// The file system as the target sees it, where that is another than ours: a container, a chroot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Holds on to the target's root directory, so that debug files can be had from there after the
/// process has ended. For any thread.
class TargetRoot {
  public:
    /// Null if the target sees what we see, or may not be looked at. `known`, which may be null, is
    /// given back where it is still the one.
    static std::shared_ptr<const TargetRoot> of(Tid thread,
                                                std::shared_ptr<const TargetRoot> known = nullptr);
    ~TargetRoot();
    TargetRoot(const TargetRoot&) = delete;
    TargetRoot& operator=(const TargetRoot&) = delete;

    /// open_regular_file() with the path as the target would use it. Neither ".." nor a symbolic
    /// link leads out of the root.
    [[nodiscard]] Result<int> open_file(const std::string& path) const;

  private:
    /// What tells one root from another.
    struct Identity {
        std::uint64_t mount_namespace = 0;
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        bool operator==(const Identity&) const = default;
    };
    static Identity identity_of(const std::string& process);

    TargetRoot(int fd, Identity identity) : fd_(fd), identity_(identity) {}

    int fd_;
    Identity identity_;
};

} // namespace memleax
