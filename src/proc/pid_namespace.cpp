// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/pid_namespace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_list.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

std::vector<int> namespace_pids(Tid pid) {
    return parse_namespace_pids(
        try_read_proc_file(fmt::format("/proc/{}/status", pid.value())).value_or(""));
}

/// A PID namespace, held open.
class PidNamespace {
  public:
    explicit PidNamespace(Tid pid)
        : fd_(open(fmt::format("/proc/{}/ns/pid", living_thread(pid).value()).c_str(),
                   O_RDONLY | O_CLOEXEC)),
          errnum_(fd_ < 0 ? errno : 0) {}
    ~PidNamespace() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    PidNamespace(const PidNamespace&) = delete;
    PidNamespace& operator=(const PidNamespace&) = delete;

    /// 0 if it could be opened.
    [[nodiscard]] int errnum() const { return errnum_; }

    /// Goes `levels` further out (ioctl_ns(2)).
    void climb(std::size_t levels) {
        for (; levels > 0 && fd_ >= 0; --levels) {
            const int parent = ioctl(fd_, NS_GET_PARENT);
            close(fd_);
            fd_ = parent;
        }
    }
    [[nodiscard]] bool is(const PidNamespace& other) const {
        struct stat a {};
        struct stat b {};
        return fd_ >= 0 && other.fd_ >= 0 && fstat(fd_, &a) == 0 && fstat(other.fd_, &b) == 0 &&
               a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    }

  private:
    int fd_;
    int errnum_;
};

} // namespace

std::vector<int> parse_namespace_pids(std::string_view status) {
    static constexpr std::string_view kField = "\nNSpid:";
    std::vector<int> pids;
    const std::size_t at = status.find(kField);
    if (at != std::string_view::npos) {
        const std::size_t begin = at + kField.size();
        std::istringstream words(
            std::string(status.substr(begin, status.find('\n', begin) - begin)));
        for (int pid = 0; words >> pid;) {
            pids.push_back(pid);
        }
    }
    return pids;
}

int own_number_of(Tid pid) {
    const std::vector<int> pids = namespace_pids(pid);
    return pids.empty() ? pid.value() : pids.back();
}

Result<Tid> find_in_pid_namespace(Tid member, int inside) {
    const auto info = try_read_process_info(member);
    if (!info) {
        return Error(fmt::format("no such process: {}", member.value()));
    }
    const PidNamespace wanted(member);
    if (wanted.errnum() != 0) {
        return Error(fmt::format("cannot look at the PID namespace of process {} ({})",
                                 member.value(), info->comm),
                     wanted.errnum())
            .with_advice("run memleax as root");
    }
    // The number of a process further inside stands at the same place as the member's last one.
    const std::size_t level = namespace_pids(member).size();
    for (const Tid pid : list_processes()) {
        const std::vector<int> pids = namespace_pids(pid);
        if (level == 0 || pids.size() < level || pids[level - 1] != inside) {
            continue;
        }
        PidNamespace its(pid);
        its.climb(pids.size() - level);
        if (its.is(wanted)) {
            return pid;
        }
    }
    return Error(fmt::format("there is no process {} in the PID namespace of process {} ({})",
                             inside, member.value(), info->comm));
}

Result<void> check_proc_is_ours() {
    char link[16] = {};
    const ssize_t size = readlink("/proc/self", link, sizeof link - 1);
    if (size < 0) {
        return Error("cannot look at /proc", errno)
            .with_advice("mount it: mount -t proc proc /proc");
    }
    if (std::atoi(link) != getpid()) {
        return Error("/proc is that of another PID namespace than the one memleax runs in")
            .with_advice("enter the mount namespace too (nsenter --mount --pid), or stay outside "
                         "of both and use --ns-pid");
    }
    return {};
}

} // namespace memleax
