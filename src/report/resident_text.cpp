// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "memleax/report/readable.hpp"
#include "memleax/report/resident_report.hpp"

namespace memleax {

namespace {

std::string size_of(std::uint64_t bytes) {
    return bytes_text(static_cast<double>(bytes));
}

/// What the kernel has more, as far as its figures show it.
std::string why_more(const ResidentReport& resident) {
    std::vector<std::string> why;
    if (resident.lost != 0) {
        why.push_back(fmt::format("the pages of {} lost samples", resident.lost));
    }
    if (resident.untold != 0) {
        why.push_back(fmt::format("{} pages that there was no room for", resident.untold));
    }
    if (resident.kernel->huge > resident.before->huge) {
        why.push_back(fmt::format("huge pages that no fault told of ({} more in all)",
                                  size_of(resident.kernel->huge - resident.before->huge)));
    }
    if (resident.kernel->lazy_free != 0) {
        why.push_back(fmt::format("{} given back by MADV_FREE, not taken yet",
                                  size_of(resident.kernel->lazy_free)));
    }
    why.emplace_back("pages that came in without a fault of their own (around a file's, "
                     "MAP_POPULATE)");
    return fmt::format("{}", fmt::join(why, ", "));
}

std::string why_less(const ResidentReport& resident) {
    std::vector<std::string> why;
    if (resident.kernel->swap > resident.before->swap) {
        why.push_back(
            fmt::format("{} swapped out", size_of(resident.kernel->swap - resident.before->swap)));
    }
    why.emplace_back("pages from before that were given back or touched anew, pages only read, "
                     "calls that were not seen");
    return fmt::format("{}", fmt::join(why, ", "));
}

} // namespace

std::optional<std::int64_t> ResidentReport::difference() const {
    if (!before || !kernel) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>((kernel->rss - kernel->own) - (before->rss - before->own) -
                                     ours);
}

ResidentReport operator+(const ResidentReport& a, const ResidentReport& b) {
    const auto sum = [](const std::optional<ResidentMemory>& x,
                        const std::optional<ResidentMemory>& y) {
        return x && y ? std::optional(*x + *y) : std::nullopt;
    };
    return {.ours = a.ours + b.ours,
            .untold = a.untold + b.untold,
            .lost = a.lost + b.lost,
            .before = sum(a.before, b.before),
            .kernel = sum(a.kernel, b.kernel)};
}

std::string resident_text(const ResidentReport& resident) {
    std::string text = fmt::format("{} by call stacks", size_of(resident.ours));
    const auto difference = resident.difference();
    if (!difference) {
        if (resident.untold != 0) {
            text += fmt::format("; there was no room for {} more pages", resident.untold);
        }
        return text + "; the kernel's figures are not known";
    }
    text += fmt::format("; the kernel has {} ({} anonymous), of which {} from before",
                        size_of(resident.kernel->rss), size_of(resident.kernel->anonymous),
                        size_of(resident.before->rss - resident.before->own));
    if (resident.kernel->own != 0) {
        text += fmt::format(" and {} of memleax's own", size_of(resident.kernel->own));
    }
    if (*difference == 0) {
        return text + ": the same";
    }
    return text + fmt::format(": {} {}: {}",
                              size_of(static_cast<std::uint64_t>(std::llabs(*difference))),
                              *difference > 0 ? "more" : "less",
                              *difference > 0 ? why_more(resident) : why_less(resident));
}

} // namespace memleax
