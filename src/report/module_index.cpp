// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_index.hpp"

namespace memleax {

ModuleIndex::ModuleIndex(const std::vector<Report::Module>& modules) : modules_(modules) {
    for (std::size_t i = 0; i < modules.size(); ++i) {
        const std::string_view path = modules[i].path;
        by_name_[path.substr(path.rfind('/') + 1)].push_back(i); // npos + 1 is 0
    }
}

std::optional<std::size_t> ModuleIndex::find(const SourceFrame& frame) const {
    const auto named = by_name_.find(frame.module);
    if (named != by_name_.end()) {
        const std::uint64_t address = frame.address().lookup_pc().value();
        for (auto i = named->second.rbegin(); i != named->second.rend(); ++i) {
            if (modules_[*i].range.contains(address)) {
                return *i;
            }
        }
    }
    return std::nullopt;
}

} // namespace memleax
