// SPDX-License-Identifier: GPL-3.0-or-later
/// Transparent huge pages: how much memory one fault has brought in (the kernel's
/// Documentation/admin-guide/mm/transhuge.rst and pagemap.rst).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/base/types.hpp"

namespace memleax {

/// In bytes, of the sizes that the kernel may give to anonymous memory.
struct HugePageSizes {
    std::uint64_t smallest;
    std::uint64_t largest;
    friend bool operator==(const HugePageSizes&, const HugePageSizes&) = default;
};
/// By the settings in this folder. Nothing: it makes none.
std::optional<HugePageSizes>
read_huge_page_sizes(const std::string& folder = "/sys/kernel/mm/transparent_hugepage");

/// A fault's record names one page. Whether more came with it only the page tables tell, and
/// /proc/kpageflags, which is root's: for others each fault is one page. Not thread-safe.
class HugePages {
  public:
    /// The address space that `pid` has now.
    explicit HugePages(Tid pid);
    HugePages(const HugePages&) = delete;
    HugePages& operator=(const HugePages&) = delete;
    ~HugePages();

    /// The huge page of anonymous memory that this address is in, as it was when it came in: parts
    /// of it may be gone. Empty: there is none now.
    [[nodiscard]] AddrRange at(RemoteAddr address);
    /// What was no huge page may be one by now.
    void forget() { small_ = {}; }

  private:
    std::optional<HugePageSizes> sizes_;
    int pages_ = -1;  ///< /proc/PID/pagemap
    int flags_ = -1;  ///< /proc/kpageflags
    AddrRange small_; ///< no huge page was here
};

} // namespace memleax
