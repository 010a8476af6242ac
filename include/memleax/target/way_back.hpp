// SPDX-License-Identifier: GPL-3.0-or-later
/// How a thread that executes a system call for us gets its registers back if nobody is left to put
/// them back: by a signal frame, to which the code behind the call leads (rt_sigreturn(2)). As long
/// as there is a tracer, the thread stops before it gets there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// For one call of a stopped thread. `memory` is what it runs in, and outlives this; `own` are its
/// registers as the kernel gave them. There is none if the thread would not be the same afterwards,
/// or is gone.
class WayBack {
  public:
    /// In our handler's page, which begins with arch::trap_handler_code(). None as long as the
    /// target may not write to it from arch::kWayBackDataAt on (arch::kWritableAt).
    static std::optional<WayBack> in_page(RemoteMemory& memory, Tid tid, const arch::Registers& own,
                                          RemoteAddr page);
    /// Between the red zone and a frame below the stack: so much memory for what the call's
    /// arguments point to, aligned as any of it needs to be. `own` are the thread's registers.
    static constexpr std::int64_t kArgumentBytes = 64;
    [[nodiscard]] static RemoteAddr argument_place(const arch::Registers& own);
    /// With arch::kReturningBytes, wherever those are: the frame is below the thread's stack. None
    /// if that is not certain to be the thread's own (a coroutine's may be 4 KiB beside others'),
    /// or has no room.
    static std::optional<WayBack> below_stack(RemoteMemory& memory, Tid tid,
                                              const arch::Registers& own);
    /// What was below the stack is there again.
    void give_back_memory();

    /// For the call itself.
    void set_stack_pointer(arch::Registers& regs) const;
    /// Where the call's result will be; 0: nowhere.
    [[nodiscard]] RemoteAddr result_at() const { return result_at_; }
    /// What is there; nothing if the call has not been made, or the thread has not got any further.
    [[nodiscard]] static std::optional<long> result(RemoteMemory& memory, RemoteAddr at);

  private:
    explicit WayBack(RemoteMemory& memory) : memory_(&memory) {}

    RemoteMemory* memory_;
    RemoteAddr result_at_;
    RemoteAddr frame_;                 ///< below the stack; 0: in our page
    std::vector<std::uint8_t> before_; ///< what was there
};

} // namespace memleax
