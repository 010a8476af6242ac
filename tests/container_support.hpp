// SPDX-License-Identifier: GPL-3.0-or-later
/// Fixtures in containers: namespaces of their own, and a file system in which nothing has the path
/// that it has for us, and that is seen nowhere else.
#pragma once

#include <string>
#include <vector>

#include "elf_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {

/// How a fixture is shut in.
struct Container {
    /// Options of unshare(1); none: no namespace, but a chroot, in which the user is 65534.
    std::vector<std::string> namespaces;
    bool unprivileged = false; ///< made by a user without privileges
    /// Where the program's debug information is: it is stripped.
    enum class Debug { beside_it, by_build_id } debug = Debug::beside_it;
};

/// May we make namespaces like that here? If not, why.
std::string why_not(const Container& container);

/// One of fixtures/, as /app/inside, and "ready".
class ContainedFixture {
  public:
    ContainedFixture(const std::string& name, const Container& container);

    Fixture& fixture() { return fixture_; }
    /// The fixture's number, for us.
    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The container's first process, likewise.
    [[nodiscard]] pid_t init() const { return init_; }
    /// The fixture's number for itself.
    [[nodiscard]] int inner_pid() const;

  private:
    memleax::test::TemporaryFolder root_;
    Fixture fixture_;
    pid_t init_ = 0;
    pid_t pid_ = 0;
};

} // namespace memleax::testing
