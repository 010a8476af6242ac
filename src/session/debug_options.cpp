// SPDX-License-Identifier: GPL-3.0-or-later
#include "debug_options.hpp"

#include <cerrno>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

Result<void> check_debug_options(const SessionOptions& options) {
    if (!options.debug_info.empty()) {
        auto usable = Symbolizer::check_debug_file(options.debug_info);
        if (!usable) {
            return std::move(usable).error();
        }
    }
    for (const std::string& folder : options.debug_folders) {
        if (access(folder.c_str(), X_OK) != 0) {
            return Error(fmt::format("cannot look into {} (--debug-dir)", folder), errno);
        }
    }
    return {};
}

} // namespace memleax
