// SPDX-License-Identifier: GPL-3.0-or-later
/// The file behind a mapping of the target, found again from outside.
#pragma once

#include <memory>

#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// What /proc/PID/exe refers to; a file that does not exist if it cannot be looked at.
struct ProgramFile {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::string path; ///< without " (deleted)"

    static ProgramFile of(Tid pid);
    [[nodiscard]] bool is_behind(const Mapping& mapping) const;
};

/// Opens the file that is mapped there, and no other that bears its name now:
///   1. /proc/PID/map_files/BEGIN-END is the file itself, whatever has become of its name and in
///      whatever mount namespace it is; following it takes CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
///   2. /proc/PID/exe, for the program: the same, with no more privilege than ptrace needs.
///   3. /proc/PID/root + path, or else the path as it is for us, if device and inode are the
///      mapping's.
/// Errors name the file by the last component of its path, for the user.
Result<std::shared_ptr<ElfImage>> open_mapped_file(Tid pid, const Mapping& mapping,
                                                   const ProgramFile& program);

/// A copy of the vDSO, which is in no file.
Result<std::shared_ptr<ElfImage>> read_vdso(MemoryReader& memory, const Mapping& mapping);

/// The last component of a path.
std::string last_component(const std::string& path);

} // namespace memleax
