// SPDX-License-Identifier: GPL-3.0-or-later
/// What a stop does to a thread that is asleep in a system call. The kernel wakes it, the call
/// ends, and what happens then depends on the call: signal(7), "Interruption of system calls and
/// library functions by stop signals", restart_syscall(2), and for the rest the kernel's sources.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

/// From what the program cannot see to what may cost it data.
enum class StopEffect {
    unnoticed, ///< the kernel begins the call again (ERESTARTSYS and its like), or goes on with it
    begun_again, ///< it ends with EINTR and has done nothing: we begin it again, and nobody sees it
    limit_anew,  ///< the same, and its time limit begins anew
    may_fail,    ///< it may end with EINTR for good, or is a call that is not known here
    cut_short    ///< it ends, and gives the number of bytes (say) that it has got done until then
};

enum class DescriptorKind {
    regular_file, ///< or a directory, a block device
    pipe,         ///< or a FIFO
    socket,
    character_device,
    other,  ///< eventfd, inotify, ...: what has no name
    unknown ///< it could not be looked at
};

/// What descriptor `fd` of this thread refers to. Asks no file server.
[[nodiscard]] DescriptorKind kind_of_descriptor(Tid tid, int fd);

/// What a look at the target may add to what the registers tell; called only where it decides.
struct CallDetails {
    std::function<DescriptorKind(int fd)> kind_of;
    /// Bytes in this array of struct iovec; nothing if it cannot be read.
    std::function<std::optional<std::uint64_t>(RemoteAddr array, std::uint64_t count)> bytes_of;
};

/// Of a thread that is asleep, in this system call with these arguments.
[[nodiscard]] StopEffect effect_of_stop(long system_call, const SystemCallArguments& arguments,
                                        const CallDetails& details);

/// May this call, which has ended with EINTR because of us, be made anew: has it done nothing yet?
/// (close, say, has closed.)
[[nodiscard]] bool can_begin_again(long system_call);

/// Could an allocator wait in this one, or let others run: for a lock, or for memory?
[[nodiscard]] bool may_be_allocators(long system_call);

/// As section 2 of the manual calls it; "system call 333" for those that no message is about.
[[nodiscard]] std::string system_call_name(long system_call);

} // namespace memleax
