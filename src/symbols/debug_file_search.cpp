// SPDX-License-Identifier: GPL-3.0-or-later
#include "debug_file_search.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "elf_files_only.hpp"
#include "memleax/elf/elf_file.hpp"
#include "memleax/symbols/debuginfod.hpp"

namespace memleax {

namespace {

const std::string kSystemFolder = "/usr/lib/debug";
// A file that is larger is not taken for its checksum: a sparse one would make us read for ever.
constexpr off_t kMaxChecked = off_t{8} << 30;
constexpr std::size_t kMinBuildId = 3; // characters: a folder of two, and a name

std::string folder_of(const std::string& path) {
    return path.substr(0, path.rfind('/') + 1); // npos + 1 == 0
}

/// .gnu_debuglink's: that of zlib (gdb manual, "Separate Debug Files").
std::optional<std::uint32_t> checksum(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || status.st_size > kMaxChecked) {
        return std::nullopt;
    }
    std::vector<unsigned char> buffer(std::size_t{1} << 16U);
    uLong crc = crc32(0, nullptr, 0);
    ssize_t got = 0;
    for (off_t at = 0; (got = pread(fd, buffer.data(), buffer.size(), at)) > 0; at += got) {
        crc = crc32(crc, buffer.data(), static_cast<uInt>(got));
    }
    return got < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(crc));
}

bool is_wanted(int fd, const DebugFileWanted& wanted) {
    const std::string build_id = build_id_of(ElfFile(fcntl(fd, F_DUPFD_CLOEXEC, 0)).get());
    if (!wanted.build_id.empty() && !build_id.empty()) {
        return wanted.build_id == build_id;
    }
    return wanted.crc && checksum(fd) == wanted.crc;
}

} // namespace

std::optional<AltLink> alt_link_of(Elf* elf) {
    std::optional<AltLink> link;
    if (elf == nullptr) {
        return link;
    }
    has_section(elf, [&link](std::string_view name, const GElf_Shdr&, Elf_Scn* section) {
        const Elf_Data* data =
            name == ".gnu_debugaltlink" ? elf_rawdata(section, nullptr) : nullptr;
        if (data == nullptr || data->d_buf == nullptr) {
            return false;
        }
        // A path, NUL, the build-id.
        const std::string_view text(static_cast<const char*>(data->d_buf), data->d_size);
        const std::size_t end = text.find('\0');
        if (end == std::string_view::npos) {
            return false;
        }
        link.emplace();
        link->name = text.substr(0, end);
        for (const char byte : text.substr(end + 1)) {
            link->build_id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
        }
        return true;
    });
    return link;
}

std::vector<DebugFileSearch::Candidate> DebugFileSearch::folders() const {
    std::vector<Candidate> result;
    for (const std::string& folder : sources_.folders) {
        result.push_back({folder});
    }
    if (root_ != nullptr) {
        result.push_back({kSystemFolder, false});
    }
    result.push_back({kSystemFolder});
    return result;
}

std::vector<DebugFileSearch::Candidate>
DebugFileSearch::by_build_id(const DebugFileWanted& wanted) const {
    std::vector<Candidate> result;
    if (wanted.build_id.size() >= kMinBuildId) {
        const std::string name = fmt::format("/.build-id/{}/{}.debug", wanted.build_id.substr(0, 2),
                                             wanted.build_id.substr(2));
        for (const Candidate& folder : folders()) {
            result.push_back({folder.path + name, folder.ours});
        }
    }
    return result;
}

std::vector<DebugFileSearch::Candidate>
DebugFileSearch::by_name(const DebugFileWanted& wanted) const {
    std::vector<Candidate> result;
    if (wanted.link.empty()) {
        return result;
    }
    const bool absolute = wanted.link.front() == '/';
    const std::string beside = folder_of(wanted.named_in);
    for (const bool ours : {false, true}) {
        if (!ours && root_ == nullptr) {
            continue;
        }
        if (absolute) {
            result.push_back({wanted.link, ours});
        } else if (!beside.empty()) {
            result.push_back({beside + wanted.link, ours});
            result.push_back({beside + ".debug/" + wanted.link, ours});
        }
    }
    // A name with folders in it is relative to the file that has it, and to nothing else. The path
    // loses one folder after the other: /usr/lib/debug/usr/bin/x, /usr/lib/debug/bin/x, ...
    if (wanted.link.find('/') == std::string::npos) {
        for (const Candidate& folder : folders()) {
            for (std::size_t slash = beside.find('/'); slash != std::string::npos;
                 slash = beside.find('/', slash + 1)) {
                result.push_back({folder.path + beside.substr(slash) + wanted.link, folder.ours});
            }
        }
    }
    return result;
}

int DebugFileSearch::open(const Candidate& candidate) const {
    if (candidate.ours) {
        return open_elf_file(candidate.path.c_str());
    }
    return open_elf_file_in(*root_, candidate.path.c_str());
}

std::optional<FoundDebugFile> DebugFileSearch::find(const DebugFileWanted& wanted,
                                                    const std::string& proposed) const {
    std::vector<Candidate> candidates;
    if (!proposed.empty()) {
        candidates.push_back({proposed});
    }
    for (const std::vector<Candidate>& more : {by_build_id(wanted), by_name(wanted)}) {
        candidates.insert(candidates.end(), more.begin(), more.end());
    }
    for (const Candidate& candidate : candidates) {
        const int fd = open(candidate);
        if (fd >= 0 && is_wanted(fd, wanted)) {
            return FoundDebugFile{fd, candidate.path};
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (sources_.debuginfod == nullptr || wanted.build_id.empty()) {
        return std::nullopt;
    }
    const std::optional<std::string> path = [&] {
        const ElfFilesOnly::Suspended client_opens_what_it_likes;
        return sources_.debuginfod->fetch(wanted.build_id, wanted.module);
    }();
    const int fd = path ? open_elf_file(path->c_str()) : -1;
    if (fd >= 0 && is_wanted(fd, wanted)) {
        return FoundDebugFile{fd, "debuginfod"};
    }
    if (fd >= 0) {
        close(fd);
    }
    return std::nullopt;
}

} // namespace memleax
