// SPDX-License-Identifier: GPL-3.0-or-later
/// What lies where in a process, as its page faults need to know it: from /proc/PID/maps once, then
/// from what the kernel tells of each new mapping.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/page_fault.hpp"
#include "memleax/proc/maps.hpp"

namespace memleax {

class TouchedMemory {
  public:
    /// What is mapped now takes the place of all that was known. `heap_begin` is that of
    /// ProcessInfo.
    void set(const std::vector<Mapping>& mappings, RemoteAddr heap_begin);
    /// This is mapped from now on. `path` is as maps or a MappedSample has it: "" or "//anon" for
    /// no file; with " (deleted)" behind it. What the kernel does not tell is unmapping; but then
    /// there are no faults either. `joined`: the range may be that of a mapping which the kernel
    /// has joined with anonymous ones beside it. Those stay what they are: who allocates the room
    /// beside a thread's stack does not touch that stack. (A stack itself comes without access.)
    void add(AddrRange range, FileOffset offset, std::string_view path, bool joined);

    struct Place {
        TouchedKind kind = TouchedKind::unknown;
        std::string_view file; ///< of TouchedKind::file; good until the next change
        FileOffset offset;     ///< of the page, in `file`
    };
    /// `sp` is the faulting thread's stack pointer, or 0.
    [[nodiscard]] Place find(RemoteAddr address, RemoteAddr sp) const;

  private:
    struct Piece {
        std::uint64_t end;
        TouchedKind kind;
        std::uint64_t offset; ///< of its begin
        std::string file;
    };
    /// The anonymous pieces that lie in this range as a whole; none if they are too many.
    [[nodiscard]] std::vector<AddrRange> whole_anonymous(AddrRange range) const;
    /// Makes a piece begin here, if one goes over it.
    void split(std::uint64_t at);

    std::map<std::uint64_t, Piece> pieces_; ///< by their begins
    AddrRange heap_page_;                   ///< the first one that the break's memory may have
};

} // namespace memleax
