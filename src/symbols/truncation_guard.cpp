// SPDX-License-Identifier: GPL-3.0-or-later
#include "truncation_guard.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace memleax {

namespace {

// Constant-initialized, so that the handler reads them without the help of the C++ runtime.
thread_local unsigned guards = 0;
thread_local unsigned missing_pages = 0;
std::uintptr_t page_size = 0;
struct sigaction before {};

/// Everything in here is a system call or a variable of the faulting thread's (signal-safety(7);
/// mmap is one plain system call on Linux).
void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const int errnum = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (guards != 0 && info->si_code == BUS_ADRERR) {
        void* page = reinterpret_cast<void*>(address & ~(page_size - 1)); // NOLINT
        // Writable like libelf's own (private) mapping; it is unmapped together with that.
        if (mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0) != MAP_FAILED) {
            ++missing_pages;
            errno = errnum;
            return;
        }
    }
    // Not ours: the instruction runs into it once more, as if we were not there.
    sigaction(SIGBUS, &before, nullptr);
    errno = errnum;
}

bool install() {
    page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &before) == 0;
}

} // namespace

TruncationGuard::TruncationGuard() : pages_before_(missing_pages) {
    [[maybe_unused]] static const bool installed = install();
    ++guards;
}

TruncationGuard::~TruncationGuard() {
    --guards;
}

bool TruncationGuard::noticed() const {
    return missing_pages != pages_before_;
}

} // namespace memleax
