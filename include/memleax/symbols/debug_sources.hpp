// SPDX-License-Identifier: GPL-3.0-or-later
/// Where debug information may come from, besides the files themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace memleax {

class Debuginfod;

struct DebugSources {
    /// Folders of debug files (--debug-dir), laid out like /usr/lib/debug or just full of them.
    /// Looked at before that one.
    std::vector<std::string> folders;
    /// Asked last; null: nobody is.
    std::shared_ptr<Debuginfod> debuginfod;
};

} // namespace memleax
