// SPDX-License-Identifier: GPL-3.0-or-later
/// Which pages of a process hold anything of its own (/proc/PID/pagemap; the kernel's
/// Documentation/admin-guide/mm/pagemap.rst). To read the others would make the kernel give the
/// process pages that it has never touched.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

class PresentPages {
  public:
    explicit PresentPages(Tid pid);
    PresentPages(const PresentPages&) = delete;
    PresentPages& operator=(const PresentPages&) = delete;
    ~PresentPages();

    enum class Kind {
        any,
        own ///< not a file's: what the process has written to of a private mapping
    };
    /// Ascending, in whole pages. All of `range` where the kernel does not tell.
    [[nodiscard]] std::vector<AddrRange> in(AddrRange range, Kind kind) const;
    /// For parts of these mappings, ascending, in() answers from now on as it would at this moment.
    void keep(std::span<const AddrRange> mappings);
    /// These parts, in whole pages and ascending, have pages as well (Kind::any), though not in the
    /// process's page table.
    void set_others(std::vector<AddrRange> others) { others_ = std::move(others); }
    /// Takes what another process, a copy of this one, has kept, of other mappings.
    void adopt(PresentPages& copys);

  private:
    struct Parts {
        AddrRange mapping;
        std::vector<AddrRange> any;
        std::vector<AddrRange> own;
    };
    [[nodiscard]] Parts read(AddrRange range) const;
    void add_others(Parts* parts) const;

    int fd_;
    std::vector<AddrRange> others_;
    std::vector<Parts> kept_;
};

} // namespace memleax
