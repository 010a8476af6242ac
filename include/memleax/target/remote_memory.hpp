// SPDX-License-Identifier: GPL-3.0-or-later
/// The target's memory: read with our breakpoints masked, written through /proc/PID/mem.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

/// One address space. Threads of the target may run meanwhile: a read is not a snapshot.
class RemoteMemory final : public MemoryReader {
  public:
    /// Opens /proc/PID/mem; the descriptor holds on to this address space, also over the leader's
    /// exit, but not over exec, after which a new RemoteMemory is needed.
    static Result<RemoteMemory> open(Tid pid);
    RemoteMemory(RemoteMemory&& other) noexcept;
    RemoteMemory& operator=(RemoteMemory&& other) noexcept;
    ~RemoteMemory() override;

    /// May be called by several threads at once, as long as nobody masks or unmasks.
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override;
    /// As the CPU sees them: breakpoints are not hidden.
    std::size_t try_read_unmasked(RemoteAddr from, std::span<std::byte> out) const;

    /// The same, also where the process itself may not read: of code that it has made execute-only.
    std::size_t try_read_forced(RemoteAddr from, std::span<std::byte> out) const;

    /// Writes all bytes, also into read-only private mappings (FOLL_FORCE, proc_pid_mem(5)), or
    /// fails; with ESRCH after the process's end. By /proc/PID/mem, never process_vm_writev: of the
    /// two only the former makes the caches for data and instructions agree (kernel,
    /// access_remote_vm -> copy_to_user_page -> flush_ptrace_access on arm64), and it writes an
    /// aligned word at once.
    Result<void> write(RemoteAddr to, std::span<const std::uint8_t> bytes);
    template <class T> Result<void> write_object(RemoteAddr to, const T& object) {
        return write(to, {reinterpret_cast<const std::uint8_t*>(&object), sizeof object});
    }

    /// From now on reads show `original` at this address. For breakpoints.
    void mask(RemoteAddr at, std::span<const std::uint8_t> original);
    void unmask(RemoteAddr at, std::size_t size);

  private:
    RemoteMemory(Tid pid, int fd) : pid_(pid), thread_(pid), fd_(fd) {}

    Tid pid_;
    mutable std::atomic<Tid> thread_; ///< one that has not ended: whom process_vm_readv asks
    int fd_ = -1;
    /// Masked bytes by address, and how many of them each page has: most reads are of stack pages,
    /// which have none.
    std::map<std::uint64_t, std::uint8_t> masked_;
    absl::flat_hash_map<std::uint64_t, unsigned> masked_pages_;
};

} // namespace memleax
