// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>
#include <exception>
#include <variant>

#include <fcntl.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/thrown_text.hpp"
#include "memleax/cli/options.hpp"
#include "memleax/cli/program.hpp"
#include "memleax/session/guardian.hpp"
#include "memleax/session/inherited_environment.hpp"
#include "memleax/session/session.hpp"

namespace {

/// Where the standard descriptors are not open, files of ours would become them, and our lines
/// would go into a report. Input is empty then, and a write fails as before (EBADF). A COMMAND has
/// none either.
void fill_standard_descriptors() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (fcntl(fd, F_GETFD) < 0) {
            open("/dev/null", O_RDONLY | O_CLOEXEC); // it is the lowest one that is free
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    using namespace memleax;
    try {
        if (const auto status = run_as_guardian(argc, argv)) {
            return *status;
        }
        fill_standard_descriptors();
        execute_without_preloads(argv);
        auto parsed = parse_options(argc, argv);
        if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
            std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
            return exit->status;
        }
        const auto& options = std::get<Options>(parsed);
        set_log_level(options.log_level);
        const SpawnAttributes inherited = prepare_process();
        return run_program(options, inherited);
    } catch (const std::exception& broken) {
        log_error("{}", thrown_text(broken));
        return 1;
    }
}
