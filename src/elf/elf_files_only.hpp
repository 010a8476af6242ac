// SPDX-License-Identifier: GPL-3.0-or-later
/// libdw opens files by itself, at paths that it finds in other files: a debug link, the "dwz" file
/// of .gnu_debugaltlink, the .dwo files of split DWARF. Whoever wrote those files could send it to
/// a FIFO, where open(2) waits for ever, to a device, or to a file that expands without end.
#pragma once

namespace memleax {

/// While one lives in a thread, what is opened there for reading is an ELF file of sane size, or
/// seems not to be there (ENOENT). Only libdwfl's search asks for something else to be done about
/// such a file, and that is to look on elsewhere.
class ElfFilesOnly {
  public:
    ElfFilesOnly();
    ~ElfFilesOnly();
    ElfFilesOnly(const ElfFilesOnly&) = delete;
    ElfFilesOnly& operator=(const ElfFilesOnly&) = delete;
};

/// Opens an ELF file of sane size in the way of open(2): -1 and errno.
int open_elf_file(const char* path);

} // namespace memleax
