// SPDX-License-Identifier: GPL-3.0-or-later
/// In which memory a thread's stack lies.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/mapping_query.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// The kernel is asked for that one mapping, if it can be. A process with thousands of threads has
/// thousands of mappings, and to read them all takes milliseconds. A thread's stack is there before
/// it and as long as it lives, so that a list is true for the stacks of all threads that are older
/// than it; what tells a thread's own stack from a coroutine's is that the C libraries put the
/// thread's block, which the thread pointer leads to, into the same mapping (glibc
/// nptl/allocatestack.c, musl src/thread/pthread_create.c).
class ThreadStacks {
  public:
    /// It must outlive this.
    explicit ThreadStacks(const Target& target) : target_(target), query_(target.pid()) {}

    /// The mapping that the stack pointer of a stopped thread is in: of its own stack, the part
    /// that is there as long as the thread lives.
    [[nodiscard]] std::optional<AddrRange> of(Tid tid, RemoteAddr sp, std::uint64_t thread_pointer);
    /// The same of a newborn that the C library has made; nothing if it is none, or if the list
    /// would have to be read.
    [[nodiscard]] std::optional<AddrRange> of_newborn(RemoteAddr sp, std::uint64_t thread_pointer);
    /// A thread has been born, perhaps.
    void on_first_stop(Tid tid) { younger_.insert(tid); }
    void on_thread_gone(Tid tid) { younger_.erase(tid); }
    /// The address space is gone.
    void forget();

  private:
    [[nodiscard]] std::optional<AddrRange> find(RemoteAddr sp) const;
    void read();

    const Target& target_;
    MappingQuery query_;
    std::vector<AddrRange> mappings_; ///< by address
    std::set<Tid> younger_;           ///< than the list
};

} // namespace memleax
