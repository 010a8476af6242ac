// SPDX-License-Identifier: GPL-3.0-or-later
#include "limited_group_support.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "child_process_support.hpp"

namespace memleax::testing {

namespace fs = std::filesystem;

void PrintTo(const GroupLimit& limit, std::ostream* out) {
    *out << limit.name;
}

LimitedGroup::LimitedGroup(const GroupLimit& limit, std::uint64_t most, Swap swap)
    : limit_file_(limit.file) {
    std::ifstream mounts("/proc/self/mounts");
    for (std::string source, point, type, options, rest;
         folder_.empty() && mounts >> source >> point >> type >> options &&
         std::getline(mounts, rest);) {
        const std::string folder = fmt::format("{}/memleax-test-{}", point, getpid());
        std::error_code failure;
        if (type != limit.type || ("," + options + ",").find(limit.option) == std::string::npos ||
            !fs::create_directory(folder, failure)) {
            continue;
        }
        folder_ = folder;
        if (!limit_to(most)) {
            fs::remove(folder, failure);
            folder_.clear();
        } else if (swap == Swap::no && limit.swap != nullptr) {
            put(limit.swap, "0"); // it may not be there: then nobody swaps
        }
    }
}

LimitedGroup::~LimitedGroup() {
    std::error_code ignored;
    for (int i = 0; !folder_.empty() && i < 1000 && !fs::remove(folder_, ignored); ++i) {
        ::poll(nullptr, 0, 1); // those in it have ended, and are about to go
    }
}

bool LimitedGroup::takes(pid_t member) const {
    return !folder_.empty() && put("cgroup.procs", std::to_string(member));
}

std::string LimitedGroup::name() const {
    return "/" + fs::path(folder_).filename().native();
}

bool LimitedGroup::limit_to(std::uint64_t most) const {
    return put(limit_file_, std::to_string(most));
}

bool LimitedGroup::put(const std::string& file, const std::string& text) const {
    const std::string path = folder_ + "/" + file;
    std::ofstream out(path);
    out << text << std::flush;
    return fs::exists(path) && out.good();
}

SwapFile::SwapFile(std::uint64_t size) : path_(folder_.file("swap")) {
    // No holes, which swapon(2) refuses.
    test::write_file(path_, std::string(size, '\0'));
    chmod(path_.c_str(), S_IRUSR | S_IWUSR);
    ChildProcess make(std::vector<std::string>{"/sbin/mkswap", path_});
    is_used_ = make.wait_for_end() == 0 && swapon(path_.c_str(), 0) == 0;
}

SwapFile::~SwapFile() {
    if (is_used_) {
        swapoff(path_.c_str());
    }
}

} // namespace memleax::testing
