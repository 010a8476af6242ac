// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/other_guardians.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_list.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

namespace {

bool has_in_its_record(Tid guardian, Tid pid, std::uint64_t start_time) {
    const std::string path =
        fmt::format("/proc/{}/fd/{}", guardian.value(), RecoveryFile::kGuardiansDescriptor);
    std::error_code error; // it has ended, or it is somebody else's, who may trace less than we
    if (!std::filesystem::read_symlink(path, error).string().starts_with("/memfd:")) {
        return false;
    }
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool has = fd >= 0 && RecoveryFile::tells_of(fd, pid, start_time);
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

Result<void> await_other_guardians(Tid pid) {
    constexpr std::int64_t kMostMs = 5000;
    constexpr int kPauseMs = 5;
    const auto name = ProcessName::parse(fmt::format("^{}$", kGuardianName));
    const auto info = try_read_process_info(pid); // of its first thread, ended or not
    if (!name || !info) {
        return {};
    }
    // Not ours: that is a child of ours.
    for (const Tid guardian : name->find()) {
        const auto has = [&] { return has_in_its_record(guardian, pid, info->start_time); };
        if (!has()) {
            continue;
        }
        log_info("a memleax was killed, and its guardian (process {}) is about to put process {} "
                 "back: it is waited for",
                 guardian.value(), pid.value());
        for (const Patience patience(kMostMs); has() && !patience.is_over();) {
            poll(nullptr, 0, kPauseMs);
        }
        if (has()) {
            return Error(fmt::format("cannot watch process {} ({}): a memleax was killed, and its "
                                     "guardian (process {}) has not put the process back yet",
                                     pid.value(), info->comm, guardian.value()),
                         EBUSY);
        }
    }
    return {};
}

} // namespace

Result<ProcessInfo> check_free(Tid pid) {
    auto info = check_watchable(pid);
    if (!info) {
        return info;
    }
    auto free = await_other_guardians(pid);
    return free ? std::move(info) : std::move(free).error();
}

} // namespace memleax
