// SPDX-License-Identifier: GPL-3.0-or-later
/// Lines from a pipe or a file, as they come.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace memleax {

class LineReader {
  public:
    /// Reads once from `fd`, and returns the lines that are complete by now. At the end of the
    /// input an unfinished line is one, too.
    std::vector<std::string> read_some(int fd);
    [[nodiscard]] bool at_end() const { return at_end_; }

  private:
    std::string partial_;
    bool at_end_ = false;
};

} // namespace memleax
