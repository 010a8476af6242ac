// SPDX-License-Identifier: GPL-3.0-or-later
/// The search for separate debug files. (libdwfl has one, too, but it knows neither the file system
/// of a container nor more than one folder, and it asks debuginfod without telling anybody.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <libelf.h>

#include "memleax/proc/target_root.hpp"
#include "memleax/symbols/debug_sources.hpp"

namespace memleax {

/// What an ELF file says of the one with its debug information.
struct DebugFileWanted {
    std::string build_id; ///< lower-case hex; "" if not known
    std::string link;     ///< as in .gnu_debuglink or .gnu_debugaltlink; "" if there is none
    std::optional<std::uint32_t> crc; ///< of the whole file; .gnu_debugaltlink has none
    std::string named_in;             ///< path of the file that says so, as the target has it
    std::string module;               ///< for people
};

/// The file that .gnu_debugaltlink names: what dwz has taken out of several.
struct AltLink {
    std::string name;
    std::string build_id;
};
std::optional<AltLink> alt_link_of(Elf* elf);

struct FoundDebugFile {
    int fd = -1;      ///< the caller's; an ELF file of sane size
    std::string path; ///< for people
};

class DebugFileSearch {
  public:
    /// Both must outlive the search. `root` may be null: the target sees what we see.
    DebugFileSearch(const DebugSources& sources, const TargetRoot* root)
        : sources_(sources), root_(root) {}

    /// `proposed`, a path of ours or "", if that is the right one. By build-id:
    /// <folder>/.build-id/ab/cdef.debug; then by name: beside the file, in .debug beside it, and
    /// under <folder>, with the file's own path or the end of it. The folders are those of
    /// --debug-dir, then /usr/lib/debug, the target's before ours. At last debuginfod. What is
    /// found is the right one by its build-id, or else by its checksum.
    [[nodiscard]] std::optional<FoundDebugFile> find(const DebugFileWanted& wanted,
                                                     const std::string& proposed = "") const;

  private:
    struct Candidate {
        std::string path;
        bool ours = true; ///< not in the target's root
    };
    [[nodiscard]] std::vector<Candidate> by_build_id(const DebugFileWanted& wanted) const;
    [[nodiscard]] std::vector<Candidate> by_name(const DebugFileWanted& wanted) const;
    [[nodiscard]] std::vector<Candidate> folders() const;
    [[nodiscard]] int open(const Candidate& candidate) const;

    const DebugSources& sources_;
    const TargetRoot* root_;
};

} // namespace memleax
