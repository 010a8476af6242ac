// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/process_list.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <regex.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

/// regex(3)
class Pattern {
  public:
    explicit Pattern(const std::string& text)
        : error_(regcomp(&regex_, text.c_str(), REG_EXTENDED | REG_NOSUB)) {}
    ~Pattern() {
        if (error_ == 0) {
            regfree(&regex_);
        }
    }
    Pattern(const Pattern&) = delete;
    Pattern& operator=(const Pattern&) = delete;

    [[nodiscard]] bool is_valid() const { return error_ == 0; }
    [[nodiscard]] std::string problem() const {
        std::array<char, 200> text{};
        regerror(error_, &regex_, text.data(), text.size());
        return text.data();
    }
    [[nodiscard]] bool is_in(const std::string& text) const {
        return regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0;
    }

  private:
    regex_t regex_{};
    int error_;
};

} // namespace

std::vector<Tid> list_processes() {
    std::vector<Tid> pids;
    std::error_code error;
    std::filesystem::directory_iterator entry("/proc", error);
    while (!error && entry != std::filesystem::directory_iterator()) {
        const int pid = std::atoi(entry->path().filename().c_str()); // 0 for what is no number
        if (pid > 0) {
            pids.emplace_back(pid);
        }
        entry.increment(error);
    }
    return pids;
}

Result<ProcessName> ProcessName::parse(const std::string& pattern) {
    const Pattern compiled(pattern);
    if (pattern.empty()) {
        return Error("the name is empty");
    }
    if (!compiled.is_valid()) {
        return Error(fmt::format("'{}' is no regular expression: {}", pattern, compiled.problem()));
    }
    return ProcessName(pattern);
}

std::vector<Tid> ProcessName::find() const {
    const Pattern pattern(pattern_);
    const Tid own(getpid());
    std::vector<Tid> found;
    for (const Tid pid : list_processes()) {
        const auto info = try_read_process_info(pid);
        if (info && !info->kernel_thread && !info->has_ended() && pid != own &&
            info->parent != own && pattern.is_in(info->comm)) {
            found.push_back(pid);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::vector<Descendant> find_descendants(const std::vector<Tid>& ancestors) {
    std::multimap<Tid, Descendant> children;
    for (const Tid pid : list_processes()) {
        const auto info = try_read_process_info(pid);
        if (info && !info->has_ended() && pid.value() != getpid()) {
            children.emplace(info->parent, Descendant{pid, info->parent, info->start_time});
        }
    }
    std::vector<Descendant> found;
    std::vector<Tid> parents = ancestors;
    for (std::size_t i = 0; i < parents.size(); ++i) {
        const auto [begin, end] = children.equal_range(parents[i]);
        for (auto child = begin; child != end; ++child) {
            const Descendant& one = child->second;
            if (std::find(parents.begin(), parents.end(), one.pid) == parents.end()) {
                found.push_back(one);
                parents.push_back(one.pid);
            }
        }
    }
    return found;
}

bool is_as_listed(const std::vector<Descendant>& list, const Descendant& one) {
    const auto info = try_read_process_info(one.pid);
    if (!info || info->start_time != one.start_time || info->parent != one.parent) {
        return false;
    }
    const auto parent = std::find_if(list.begin(), list.end(), [&one](const Descendant& each) {
        return each.pid == one.parent;
    });
    return parent == list.end() || is_as_listed(list, *parent);
}

} // namespace memleax
