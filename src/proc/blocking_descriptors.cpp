// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/blocking_descriptors.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>

#include "descriptors.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// Of one that cannot be read, nothing is known.
bool may_wait(const std::string& fdinfo) {
    constexpr std::string_view kFlags = "flags:";
    constexpr int kOctal = 8;
    const auto text = try_read_proc_file(fdinfo).value_or("");
    const std::size_t at = text.find(kFlags);
    return at == std::string::npos ||
           (std::strtoull(text.c_str() + at + kFlags.size(), nullptr, kOctal) & O_NONBLOCK) == 0;
}

bool is_device(std::string_view name) {
    constexpr std::array<std::string_view, 5> kOfMemory{
        {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}};
    return name.starts_with("/dev/") && !name.starts_with("/dev/shm/") &&
           std::find(kOfMemory.begin(), kOfMemory.end(), name) == kOfMemory.end();
}

} // namespace

void BlockingDescriptors::look() {
    const MonotonicNs now = monotonic_now();
    if (seen_ && now.value() - seen_->value() <= kNsPerSecond) {
        return;
    }
    seen_ = now;
    any_socket_ = any_device_ = false;
    const auto looked =
        check_descriptors(pid_, [this](const std::string& name, const std::string& info) {
            const bool is_socket = name.starts_with("socket:");
            if ((is_socket || is_device(name)) && may_wait(info)) {
                (is_socket ? any_socket_ : any_device_) = true;
            }
            return any_socket_ && any_device_ ? Error("both are known") : Result<void>();
        });
    if (!looked) {
        any_socket_ = any_device_ = true;
    }
}

bool BlockingDescriptors::any_socket() {
    look();
    return any_socket_;
}

bool BlockingDescriptors::any_slow() {
    look();
    return any_socket_ || any_device_;
}

} // namespace memleax
