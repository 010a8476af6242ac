// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>
#include <optional>
#include <span>
#include <vector>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/way_back.hpp"
#include "remote_calls.hpp"

namespace memleax {

/// A thread with other registers than its own, for one system call: they are kept where the
/// guardian finds them, and the thread stands where nothing happens to it until they are back.
class BorrowedRegisters {
  public:
    BorrowedRegisters(RecoveryRecord& record, RemoteMemory& memory, Tid tid,
                      const arch::Registers& saved, int stop_signal);
    /// What is borrowed of the code goes back; the registers only by give_back().
    ~BorrowedRegisters();
    BorrowedRegisters(const BorrowedRegisters&) = delete;
    BorrowedRegisters& operator=(const BorrowedRegisters&) = delete;

    /// Borrows a few bytes of code, too.
    Result<void> write_code(CodeAddr padding, long number, const arch::Registers& own);
    /// The same, of code for a call that makes a copy of the process (arch::kCopyingBytes). Fails
    /// where the thread has no way back.
    Result<void> write_copying_code(CodeAddr padding, const arch::Registers& own);
    /// Code of ours that is there.
    void use(const RemoteCalls::OwnPage& page, const arch::Registers& own);
    /// Other code of that page.
    void use(AddrRange code);
    /// Code of the target's, behind which nothing keeps the thread.
    void use(CodeAddr instruction) { use(AddrRange::at(instruction, arch::kSyscallBytes.size())); }

    void prepare(arch::Registers* regs) const;
    /// Does the thread get its registers back by itself, should we die?
    [[nodiscard]] bool has_way_back() const { return way_back_.has_value(); }
    [[nodiscard]] CodeAddr instruction() const { return CodeAddr(entry_.code.begin); }
    /// With the registers comes back the call that the thread was interrupted in, which the kernel
    /// restarts when it sees its number and -ERESTART* in them again. False if it is gone.
    bool give_back();

  private:
    Result<void> write(CodeAddr padding, std::span<const std::uint8_t> code);

    RecoveryRecord::BorrowedThread& entry_;
    RemoteMemory& memory_;
    std::optional<WayBack> way_back_;
    Tid tid_;
    int stop_signal_;
    siginfo_t info_{};
};

} // namespace memleax
