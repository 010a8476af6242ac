// SPDX-License-Identifier: GPL-3.0-or-later
#include "displace_machine_support.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <sys/mman.h>
#include <ucontext.h>

using memleax::test::CpuState;

extern "C" {
extern CpuState memleax_test_state;
extern std::uint64_t memleax_test_entry;
CpuState memleax_test_state;
std::uint64_t memleax_test_entry;
void memleax_test_run();
void memleax_test_exit();
}

static_assert(offsetof(CpuState, flags) == 128 && offsetof(CpuState, exit) == 136 &&
              offsetof(CpuState, xmm0) == 144);

// mov changes no flags, so they are set first and read last. An exit has saved rax, and put its
// number there.
asm(R"(
    .pushsection .text
    .type memleax_test_run, @function
memleax_test_run:
    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15
    mov %rsp, memleax_test_host_sp(%rip)
    lea memleax_test_state(%rip), %r15
    movups 144(%r15), %xmm0
    push 128(%r15); popfq
    mov 0(%r15), %rax;   mov 8(%r15), %rcx;   mov 16(%r15), %rdx;  mov 24(%r15), %rbx
    mov 32(%r15), %rsp;  mov 40(%r15), %rbp;  mov 48(%r15), %rsi;  mov 56(%r15), %rdi
    mov 64(%r15), %r8;   mov 72(%r15), %r9;   mov 80(%r15), %r10;  mov 88(%r15), %r11
    mov 96(%r15), %r12;  mov 104(%r15), %r13; mov 112(%r15), %r14; mov 120(%r15), %r15
    jmp *memleax_test_entry(%rip)

    .type memleax_test_exit, @function
memleax_test_exit:
    mov %rax, 136+memleax_test_state(%rip)
    lea memleax_test_state(%rip), %rax
    mov %rcx, 8(%rax);   mov %rdx, 16(%rax);  mov %rbx, 24(%rax);  mov %rsp, 32(%rax)
    mov %rbp, 40(%rax);  mov %rsi, 48(%rax);  mov %rdi, 56(%rax);  mov %r8, 64(%rax)
    mov %r9, 72(%rax);   mov %r10, 80(%rax);  mov %r11, 88(%rax);  mov %r12, 96(%rax)
    mov %r13, 104(%rax); mov %r14, 112(%rax); mov %r15, 120(%rax)
    movups %xmm0, 144(%rax)
    mov memleax_test_host_sp(%rip), %rsp
    pushfq; pop 128(%rax)
    cld
    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
    ret
    .local memleax_test_host_sp
    .comm memleax_test_host_sp, 8, 8
    .popsection
)");

namespace memleax::test {

namespace {

template <class T> void put(std::span<std::uint8_t> out, std::size_t at, T value) {
    std::memcpy(&out[at], &value, sizeof value);
}

// What the signal handler needs to know.
std::uint64_t trap_at;
arch::SlotPoint trap_point;
volatile std::sig_atomic_t trap_reached;

void leave_slot(int, siginfo_t*, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (static_cast<std::uint64_t>(registers[REG_RIP]) != trap_at + 1) {
        std::abort();
    }
    registers[REG_RIP] = static_cast<greg_t>(trap_point.original.value());
    registers[REG_RSP] += trap_point.sp_adjust;
    trap_reached = 1;
}

} // namespace

std::optional<Region> Region::map_at(std::uint64_t address, std::size_t size) {
    void* base = ::mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (base == MAP_FAILED) {
        return std::nullopt;
    }
    return Region(static_cast<std::uint8_t*>(base), size);
}
Region::Region(Region&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(other.size_) {}
Region::~Region() {
    if (base_ != nullptr) {
        ::munmap(base_, size_);
    }
}

Machine::Machine(Region region) : region_(std::move(region)) {
    for (std::uint8_t n = 0; n < 16; ++n) {
        write_exit(kExits + n * kExitBytes, n);
    }
    write_exit(kNearExit, 1);
}

void Machine::write_exit(std::size_t at, std::uint8_t number) {
    const auto out = region_.bytes().subspan(at);
    put(out, 0, std::uint16_t{0xa348}); // movabs %rax,state.rax
    put(out, 2, &memleax_test_state.registers[CpuState::rax]);
    put(out, 10, std::uint8_t{0xb8}); // mov $number,%eax
    put(out, 11, std::uint32_t{number});
    put(out, 15, std::uint16_t{0x25ff}); // jmp *0(%rip)
    put(out, 17, std::uint32_t{0});
    put(out, 21, &memleax_test_exit);
}

void Machine::load(std::span<const std::uint8_t> instruction) {
    std::copy(instruction.begin(), instruction.end(), region_.bytes().begin() + kFrom);
    write_exit(kFrom + instruction.size(), 0);
    for (std::size_t at = kData; at < kSize; at += 8) {
        put(region_.bytes(), at, exit(at / 8 % 16));
    }
}

CpuState Machine::run(CodeAddr entry, const CpuState& state) {
    memleax_test_state = state;
    memleax_test_entry = entry.value();
    memleax_test_run();
    return memleax_test_state;
}

std::vector<std::uint8_t> Machine::memory() const {
    const auto bytes = region_.bytes().subspan(kData);
    return {bytes.begin(), bytes.end()};
}

LeaveAtPoint::LeaveAtPoint(std::span<std::uint8_t> slot, const arch::SlotPoint& point)
    : place_(slot[point.offset]), saved_(place_) {
    // The handler must not write to the stack that is compared.
    alignas(16) static std::array<std::byte, 65536> handler_stack;
    stack_t stack{};
    stack.ss_sp = handler_stack.data();
    stack.ss_size = handler_stack.size();
    ::sigaltstack(&stack, nullptr);
    struct sigaction action {};
    action.sa_sigaction = leave_slot;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGTRAP, &action, nullptr);

    trap_at = reinterpret_cast<std::uint64_t>(&place_);
    trap_point = point;
    trap_reached = 0;
    place_ = arch::kBreakpointBytes[0];
}
LeaveAtPoint::~LeaveAtPoint() {
    place_ = saved_;
    ::signal(SIGTRAP, SIG_DFL);
}
bool LeaveAtPoint::was_reached() const {
    return trap_reached != 0;
}

} // namespace memleax::test
