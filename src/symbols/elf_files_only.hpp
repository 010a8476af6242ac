// SPDX-License-Identifier: GPL-3.0-or-later
/// libdw opens files by itself, at paths that it finds in other files: a debug link, the "dwz" file
/// of .gnu_debugaltlink, the .dwo files of split DWARF. Whoever wrote those files could send it to
/// a FIFO, where open(2) waits for ever, to a device, or to a file that expands without end.
#pragma once

#include "memleax/proc/target_root.hpp"

namespace memleax {

/// While one lives in a thread, what is opened there for reading is an ELF file of sane size, or
/// seems not to be there (ENOENT). Only libdwfl's search asks for something else to be done about
/// such a file, and that is to look on elsewhere.
class ElfFilesOnly {
  public:
    /// Paths from the root are looked for in `root` first, if there is one, which must outlive
    /// this: it is there that the file that has them belongs to.
    explicit ElfFilesOnly(const TargetRoot* root = nullptr);
    ~ElfFilesOnly();
    ElfFilesOnly(const ElfFilesOnly&) = delete;
    ElfFilesOnly& operator=(const ElfFilesOnly&) = delete;

    /// For others who open files in the same thread in between.
    class Suspended {
      public:
        Suspended();
        ~Suspended();
        Suspended(const Suspended&) = delete;
        Suspended& operator=(const Suspended&) = delete;

      private:
        unsigned guards_;
    };

  private:
    const TargetRoot* before_;
};

/// Opens an ELF file of sane size in the way of open(2): -1 and errno.
int open_elf_file(const char* path);
/// The same, as the target would.
int open_elf_file_in(const TargetRoot& root, const char* path);

} // namespace memleax
