// SPDX-License-Identifier: GPL-3.0-or-later
#include "report_modules.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// Where the first executable mapping begins in the file. A segment is mapped so that
///
///     file offset - p_offset  ==  (address - bias) - p_vaddr
///
/// from the page on that it begins in; the first executable one that ends behind the address is
/// the one mapped there. Files that could not be read have a bias as if address and offset were
/// equal (find_load_bias in modules.cpp).
std::uint64_t file_offset(const Module& module) {
    const std::uint64_t address = module.to_elf(CodeAddr(module.executable.front().begin)).value();
    if (module.image != nullptr) {
        for (const ElfSegment& segment : module.image->segments()) {
            if (segment.executable && address < segment.address.value() + segment.memory_size) {
                return address - segment.address.value() + segment.offset.value();
            }
        }
    }
    return address;
}

} // namespace

std::vector<Report::Module>
report_modules(const std::vector<std::shared_ptr<const Module>>& modules, const Module* main) {
    std::vector<Report::Module> result;
    for (const auto& module : modules) {
        if (module->executable.empty()) {
            continue;
        }
        Report::Module each;
        each.path = module->path;
        each.build_id = module->image != nullptr ? module->image->build_id() : "";
        each.range = {module->executable.front().begin, module->executable.back().end};
        each.file_offset = file_offset(*module);
        result.push_back(std::move(each));
        if (module.get() == main) {
            std::rotate(result.begin(), result.end() - 1, result.end());
        }
    }
    return result;
}

} // namespace memleax
