// SPDX-License-Identifier: GPL-3.0-or-later
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/maps.hpp"

namespace memleax {

namespace {

/// Takes a line apart from its left end. After a failure everything else fails too.
class LineScanner {
  public:
    explicit LineScanner(std::string_view line) : rest_(line) {}

    template <class T> T number(int base) {
        T value{};
        const auto [end, error] =
            std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
        if (error != std::errc{}) {
            fail();
            return {};
        }
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }
    void expect(char c) {
        if (rest_.empty() || rest_.front() != c) {
            fail();
            return;
        }
        rest_.remove_prefix(1);
    }
    std::string_view take(std::size_t n) {
        if (rest_.size() < n) {
            fail();
            return {};
        }
        const std::string_view text = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return text;
    }
    std::string_view after_blanks() {
        const std::size_t at = rest_.find_first_not_of(' ');
        return at == std::string_view::npos ? std::string_view{} : rest_.substr(at);
    }
    [[nodiscard]] bool ok() const { return ok_; }

  private:
    void fail() {
        ok_ = false;
        rest_ = {};
    }
    std::string_view rest_;
    bool ok_ = true;
};

/// The kernel escapes a newline, and nothing else (seq_file_path(m, file, "\n")): a name that
/// contains a backslash and "012" looks the same, and is told apart only by its inode.
std::string unescape(std::string_view name) {
    static constexpr std::string_view newline = "\\012";
    std::string result;
    result.reserve(name.size());
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name.substr(i).starts_with(newline)) {
            result += '\n';
            i += newline.size() - 1;
        } else {
            result += name[i];
        }
    }
    return result;
}

/// begin-end rwxp offset major:minor inode          path
std::optional<Mapping> parse_line(std::string_view line) {
    LineScanner scan(line);
    Mapping mapping;
    mapping.range.begin = scan.number<std::uint64_t>(16);
    scan.expect('-');
    mapping.range.end = scan.number<std::uint64_t>(16);
    scan.expect(' ');
    const std::string_view flags = scan.take(4);
    scan.expect(' ');
    mapping.offset = FileOffset(scan.number<std::uint64_t>(16));
    scan.expect(' ');
    const auto device_major = scan.number<unsigned>(16);
    scan.expect(':');
    const auto device_minor = scan.number<unsigned>(16);
    scan.expect(' ');
    mapping.inode = scan.number<std::uint64_t>(10);
    if (!scan.ok() || mapping.range.empty()) {
        return std::nullopt;
    }
    mapping.readable = flags[0] == 'r';
    mapping.writable = flags[1] == 'w';
    mapping.executable = flags[2] == 'x';
    mapping.shared = flags[3] == 's';
    mapping.device = makedev(device_major, device_minor);

    static constexpr std::string_view deleted = " (deleted)";
    std::string_view path = scan.after_blanks();
    if (path.starts_with('/') && path.ends_with(deleted)) {
        mapping.deleted = true;
        path.remove_suffix(deleted.size());
    }
    mapping.path = unescape(path);
    return mapping;
}

} // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
    std::vector<Mapping> mappings;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (auto mapping = parse_line(text.substr(0, end))) {
            mappings.push_back(*std::move(mapping));
        }
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return mappings;
}

/// The threads may run meanwhile. The kernel promises (Documentation/filesystems/proc.rst) that the
/// addresses never go back and that what was there all the time is in the text.
Result<std::vector<Mapping>> read_maps(Tid pid) {
    const std::string path = fmt::format("/proc/{}/maps", living_thread(pid).value());
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return Error(fmt::format("cannot open {}", path), errno);
    }
    std::string text;
    std::vector<char> buffer(std::size_t{64} * 1024);
    ssize_t got = 0;
    while ((got = read(fd, buffer.data(), buffer.size())) > 0 || (got < 0 && errno == EINTR)) {
        text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    const int errnum = errno;
    close(fd);
    if (got < 0) {
        return Error(fmt::format("cannot read {}", path), errnum);
    }
    return parse_maps(text);
}

} // namespace memleax
