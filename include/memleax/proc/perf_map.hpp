// SPDX-License-Identifier: GPL-3.0-or-later
/// Names of code that was generated at run time: the file that V8, the JVM, .NET, LuaJIT and others
/// write for perf(1), a line for each function: "START SIZE NAME", the numbers in hex
/// (tools/perf/Documentation/jit-interface.txt of the kernel).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <absl/container/btree_map.h>

#include "memleax/base/types.hpp"
#include "memleax/proc/target_root.hpp"

namespace memleax {

class PerfMap {
  public:
    struct Function {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        std::string name;
    };

    /// Adds the lines of `text`, and returns how much of it that was: an unfinished last line is
    /// left. Where functions overlap, the later one is there: code is moved and thrown away.
    std::size_t add(std::string_view text);
    /// Null if there is none at this address.
    [[nodiscard]] const Function* find(std::uint64_t address) const;

  private:
    void add_line(std::string_view line);
    void insert(Function function);

    absl::btree_map<std::uint64_t, Function> functions_; ///< by begin; none overlaps another
    std::size_t size_ = 0;                               ///< of all names
};

/// That of one process: /tmp/perf-PID.map, in the file system that it sees and with the number that
/// it has for itself. Anybody can put a file there, so only one that the target's user (or root)
/// owns is believed.
class PerfMapFile {
  public:
    /// `root` may be null: the process sees what we see.
    PerfMapFile(std::shared_ptr<const TargetRoot> root, int own_number, unsigned owner);
    ~PerfMapFile();
    PerfMapFile(const PerfMapFile&) = delete;
    PerfMapFile& operator=(const PerfMapFile&) = delete;

    /// Reads what has been added to the file meanwhile. Null if nothing is known of this address.
    const PerfMap::Function* find(CodeAddr pc);
    /// The file's, without its folder.
    [[nodiscard]] std::string name() const { return path_.substr(path_.rfind('/') + 1); }

  private:
    void open();
    void read_on();

    std::shared_ptr<const TargetRoot> root_;
    std::string path_;
    unsigned owner_;
    int fd_ = -1;
    bool looked_ = false;
    std::uint64_t position_ = 0; ///< up to there the file has been understood
    PerfMap map_;
};

} // namespace memleax
