// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>

#include "memleax/base/types.hpp"

namespace memleax {

/// Asks for one mapping of a process (PROCMAP_QUERY, proc_pid_maps(5); since Linux 6.11), in a
/// microsecond or two, however many there are. Has a descriptor open from the first question on.
class MappingQuery {
  public:
    explicit MappingQuery(Tid pid) : pid_(pid) {}
    ~MappingQuery();
    MappingQuery(const MappingQuery&) = delete;
    MappingQuery& operator=(const MappingQuery&) = delete;

    /// As in the list (read_maps()), and if wanted its name there: a file's path, "[stack]", or
    /// nothing. No range: there is none, or it cannot be asked for.
    [[nodiscard]] std::optional<AddrRange> covering(RemoteAddr address,
                                                    std::string* name = nullptr);
    /// The address space is gone: the process has another one.
    void forget();

  private:
    Tid pid_;
    int fd_ = -1;
    bool works_ = true; ///< as far as is known
};

} // namespace memleax
