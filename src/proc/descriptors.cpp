// SPDX-License-Identifier: GPL-3.0-or-later
#include "descriptors.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

Result<void> check_descriptors(
    Tid pid,
    const std::function<Result<void>(const std::string& name, const std::string& info)>& check) {
    namespace fs = std::filesystem;
    const std::string folder = fmt::format("/proc/{}", living_thread(pid).value());
    std::error_code failure;
    fs::directory_iterator descriptor(folder + "/fd", failure);
    for (const fs::directory_iterator end; !failure && descriptor != end;
         descriptor.increment(failure)) {
        std::error_code gone;
        const std::string name = fs::read_symlink(descriptor->path(), gone);
        const std::string number = descriptor->path().filename();
        if (auto checked = check(name, fmt::format("{}/fdinfo/{}", folder, number)); !checked) {
            return checked;
        }
    }
    return failure ? Error("its descriptors cannot be looked at", failure.value()) : Result<void>();
}

} // namespace memleax
