// SPDX-License-Identifier: GPL-3.0-or-later
#include "borrowed_registers.hpp"

#include <cerrno>

#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "exec_stop.hpp"
#include "memleax/base/log.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

BorrowedRegisters::BorrowedRegisters(RecoveryRecord& record, RemoteMemory& memory, Tid tid,
                                     const arch::Registers& saved, int stop_signal)
    : entry_(record.borrowed), memory_(memory), tid_(tid), stop_signal_(stop_signal) {
    entry_.registers = saved;
    StoppedThread(tid_).get_discarded(&entry_.discarded);
    // The call ends in a stop of its own, so what this stop was about to deliver is put back.
    if (stop_signal_ != 0) {
        ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &info_);
    }
    entry_.code_byte_count = 0;
    entry_.result_at = 0;
}

BorrowedRegisters::~BorrowedRegisters() {
    if (entry_.code_byte_count != 0) {
        (void)memory_.write(RemoteAddr(entry_.code.begin),
                            std::span(entry_.code_bytes).first(entry_.code_byte_count));
    }
    if (way_back_) {
        way_back_->give_back_memory();
    }
    entry_.tid.store(0);
}

Result<void> BorrowedRegisters::write_code(CodeAddr padding, long number,
                                           const arch::Registers& own) {
    // What an mmap has mapped only the thread itself can tell, as long as it stays there.
    if (number != SYS_mmap) {
        way_back_ = WayBack::below_stack(memory_, tid_, own);
    }
    return write(padding, way_back_ ? std::span<const std::uint8_t>(arch::kReturningBytes)
                                    : std::span<const std::uint8_t>(arch::kParkingBytes));
}

Result<void> BorrowedRegisters::write_copying_code(CodeAddr padding, const arch::Registers& own) {
    way_back_ = WayBack::below_stack(memory_, tid_, own);
    if (!way_back_) {
        return Error("no thread of it would get back to where it is by itself", ENOTSUP);
    }
    return write(padding, arch::kCopyingBytes);
}

Result<void> BorrowedRegisters::write(CodeAddr padding, std::span<const std::uint8_t> code) {
    const auto bytes = std::as_writable_bytes(std::span(entry_.code_bytes)).first(code.size());
    if (memory_.try_read(padding.as_data(), bytes) != bytes.size()) {
        return Error("cannot read the code", EFAULT);
    }
    entry_.code_byte_count = static_cast<std::uint32_t>(bytes.size());
    use(AddrRange::at(padding, code.size()));
    return memory_.write(padding.as_data(), code);
}

void BorrowedRegisters::use(const RemoteCalls::OwnPage& page, const arch::Registers& own) {
    way_back_ = WayBack::in_page(memory_, tid_, own, page.begin);
    if (way_back_) {
        entry_.result_at = way_back_->result_at().value();
    }
    use(way_back_ ? page.way_back() : page.parking());
}

void BorrowedRegisters::use(AddrRange code) {
    entry_.code = code;
    entry_.tid.store(tid_.value());
}

void BorrowedRegisters::prepare(arch::Registers* regs) const {
    if (way_back_) {
        way_back_->set_stack_pointer(*regs);
    }
}

bool BorrowedRegisters::give_back() {
    if (is_in_exec_stop(tid_) || !StoppedThread(tid_).set_registers(entry_.registers)) {
        return false;
    }
    if (!StoppedThread(tid_).set_discarded(entry_.discarded)) {
        log_warning("thread {} has lost its vector registers in a call of memleax's", tid_.value());
    }
    if (stop_signal_ != 0) {
        ptrace(PTRACE_SETSIGINFO, tid_.value(), nullptr, &info_);
    }
    return true;
}

} // namespace memleax
