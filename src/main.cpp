// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>
#include <exception>
#include <variant>

#include "memleax/guardian.hpp"
#include "memleax/inherited_environment.hpp"
#include "memleax/log.hpp"
#include "memleax/options.hpp"
#include "memleax/program.hpp"
#include "memleax/session.hpp"

int main(int argc, char** argv) {
    using namespace memleax;
    try {
        if (const auto status = run_as_guardian(argc, argv)) {
            return *status;
        }
        execute_without_preloads(argv);
        auto parsed = parse_options(argc, argv);
        if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
            std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
            return exit->status;
        }
        const auto& options = std::get<Options>(parsed);
        set_log_level(options.log_level);
        const Inherited inherited = prepare_process();
        return run_program(options, inherited);
    } catch (const std::exception& broken) {
        log_error("internal error: {}", broken.what());
        return 1;
    }
}
