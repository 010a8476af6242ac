// SPDX-License-Identifier: GPL-3.0-or-later
#include "dwo_package.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace memleax {

namespace {

thread_local int offer = -1;

using Bytes = std::span<const std::byte>;

// DW_SECT_*
constexpr std::size_t kInfo = 1;
constexpr std::size_t kAbbrev = 3;
constexpr std::size_t kStrOffsets = 6;
constexpr std::size_t kIndexHeader = 16;
constexpr std::size_t kMaxStrings = std::size_t{64} << 20; // of one unit

template <class T> T load(Bytes bytes, std::size_t at) {
    T value{};
    if (at <= bytes.size() && sizeof value <= bytes.size() - at) {
        std::memcpy(&value, bytes.data() + at, sizeof value);
    }
    return value;
}

Bytes slice(Bytes bytes, std::size_t offset, std::size_t size) {
    if (offset > bytes.size() || size > bytes.size() - offset) {
        return {};
    }
    return bytes.subspan(offset, size);
}

/// The strings that the unit uses, of the many in the package, and its table of offsets changed
/// accordingly. Always of 32 bits: nothing writes a larger one.
struct Strings {
    std::vector<std::byte> offsets;
    std::vector<std::byte> text;

    Strings(Bytes table, Bytes all, std::size_t header) : offsets(table.begin(), table.end()) {
        for (std::size_t at = header; at + sizeof(std::uint32_t) <= offsets.size();
             at += sizeof(std::uint32_t)) {
            const auto place = static_cast<std::uint32_t>(text.size());
            std::memcpy(offsets.data() + at, &place, sizeof place);
            append(tail(all, load<std::uint32_t>(table, at)));
        }
    }

  private:
    static Bytes tail(Bytes all, std::size_t offset) {
        return offset < all.size() ? all.subspan(offset) : Bytes{};
    }
    void append(Bytes from) {
        const auto* begin = reinterpret_cast<const char*>(from.data());
        const std::size_t size = from.empty() ? 0 : strnlen(begin, from.size());
        if (size < kMaxStrings - std::min(text.size(), kMaxStrings)) {
            text.insert(text.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size));
        }
        text.push_back(std::byte{0});
    }
};

/// An ELF file with nothing but sections.
class SectionsFile {
  public:
    SectionsFile() : bytes_(sizeof(Elf64_Ehdr)), headers_(1) { add_name(""); }

    void add(const char* name, Bytes contents, Elf64_Word type = SHT_PROGBITS) {
        Elf64_Shdr header{};
        header.sh_name = add_name(name);
        header.sh_type = type;
        header.sh_flags = SHF_EXCLUDE;
        header.sh_offset = bytes_.size();
        header.sh_size = contents.size();
        header.sh_addralign = 1;
        headers_.push_back(header);
        bytes_.insert(bytes_.end(), contents.begin(), contents.end());
    }
    /// A descriptor, or -1. `like` is a file for the same machine.
    int make(Elf* like) {
        GElf_Ehdr model;
        if (gelf_getehdr(like, &model) == nullptr) {
            return -1;
        }
        const Elf64_Word name = add_name(".shstrtab");
        const std::string names = names_;
        add("", std::as_bytes(std::span(names)), SHT_STRTAB);
        headers_.back().sh_name = name;
        headers_.back().sh_flags = 0;
        bytes_.resize((bytes_.size() + 7) / 8 * 8);

        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, model.e_ident, EI_NIDENT);
        header.e_type = ET_REL;
        header.e_machine = model.e_machine;
        header.e_version = EV_CURRENT;
        header.e_ehsize = sizeof header;
        header.e_shoff = bytes_.size();
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = static_cast<Elf64_Half>(headers_.size());
        header.e_shstrndx = static_cast<Elf64_Half>(headers_.size() - 1);
        std::memcpy(bytes_.data(), &header, sizeof header);
        const Bytes table = std::as_bytes(std::span(headers_));
        bytes_.insert(bytes_.end(), table.begin(), table.end());

        const int fd = memfd_create("memleax-dwo", MFD_CLOEXEC);
        if (fd >= 0 &&
            write(fd, bytes_.data(), bytes_.size()) != static_cast<ssize_t>(bytes_.size())) {
            close(fd);
            return -1;
        }
        return fd;
    }

  private:
    Elf64_Word add_name(const char* name) {
        const auto at = static_cast<Elf64_Word>(names_.size());
        names_ += name;
        names_ += '\0';
        return at;
    }

    std::vector<std::byte> bytes_;
    std::vector<Elf64_Shdr> headers_;
    std::string names_;
};

} // namespace

DwoPackage::Offer::Offer(int fd) : before_(std::exchange(offer, fd)) {}

DwoPackage::Offer::~Offer() {
    if (offer >= 0) {
        close(offer);
    }
    offer = before_;
}

int offered_dwo() {
    return offer >= 0 ? fcntl(offer, F_DUPFD_CLOEXEC, 0) : -1;
}

std::unique_ptr<DwoPackage> DwoPackage::open(int fd) {
    std::unique_ptr<DwoPackage> self(new DwoPackage(fd));
    return self->read_sections() ? std::move(self) : nullptr;
}

const char* DwoPackage::name_of(std::size_t kind) const {
    static constexpr std::array<const char*, kKinds> kDwarf4{nullptr,
                                                             ".debug_info.dwo",
                                                             nullptr,
                                                             ".debug_abbrev.dwo",
                                                             ".debug_line.dwo",
                                                             ".debug_loc.dwo",
                                                             ".debug_str_offsets.dwo",
                                                             ".debug_macinfo.dwo",
                                                             ".debug_macro.dwo"};
    static constexpr std::array<const char*, kKinds> kDwarf5{nullptr,
                                                             ".debug_info.dwo",
                                                             nullptr,
                                                             ".debug_abbrev.dwo",
                                                             ".debug_line.dwo",
                                                             ".debug_loclists.dwo",
                                                             ".debug_str_offsets.dwo",
                                                             ".debug_macro.dwo",
                                                             ".debug_rnglists.dwo"};
    return is_dwarf5_ ? kDwarf5[kind] : kDwarf4[kind];
}

bool DwoPackage::read_sections() {
    Elf* elf = file_.get();
    GElf_Ehdr header;
    if (elf == nullptr || gelf_getehdr(elf, &header) == nullptr ||
        header.e_ident[EI_CLASS] != ELFCLASS64) {
        return false;
    }
    const auto section = [elf](std::string_view wanted) {
        Bytes found;
        has_section(elf, [&](std::string_view name, const GElf_Shdr& each, Elf_Scn* place) {
            if (name != wanted) {
                return false;
            }
            if ((each.sh_flags & SHF_COMPRESSED) != 0) {
                elf_compress(place, 0, 0);
            }
            const Elf_Data* data = elf_rawdata(place, nullptr);
            if (data != nullptr && data->d_buf != nullptr) {
                found = {static_cast<const std::byte*>(data->d_buf), data->d_size};
            }
            return true;
        });
        return found;
    };
    index_ = section(".debug_cu_index");
    // 2 as a word in GNU's, 5 as a half word and padding in the standard's.
    const auto version = load<std::uint16_t>(index_, 0);
    is_dwarf5_ = version == 5;
    columns_ = load<std::uint32_t>(index_, 4);
    units_ = load<std::uint32_t>(index_, 8);
    slots_ = load<std::uint32_t>(index_, 12);
    const std::uint64_t size =
        kIndexHeader + std::uint64_t{slots_} * 12 + (std::uint64_t{units_} * 2 + 1) * columns_ * 4;
    if ((version != 2 && !is_dwarf5_) || columns_ == 0 || columns_ >= kKinds || slots_ == 0 ||
        (slots_ & (slots_ - 1)) != 0 || size > index_.size()) {
        return false;
    }
    for (std::size_t kind = 1; kind < kKinds; ++kind) {
        if (name_of(kind) != nullptr) {
            sections_[kind] = section(name_of(kind));
        }
    }
    strings_ = section(".debug_str.dwo");
    return true;
}

/// The index is a hash table with open addressing (DWARF 5, 7.3.5.3).
std::optional<std::uint32_t> DwoPackage::row_of(std::uint64_t id) const {
    const std::uint64_t mask = slots_ - 1;
    std::uint64_t slot = id & mask;
    const std::uint64_t step = ((id >> 32U) & mask) | 1U;
    for (std::uint32_t tries = 0; tries < slots_; ++tries, slot = (slot + step) & mask) {
        const auto row = load<std::uint32_t>(index_, kIndexHeader + std::size_t{slots_} * 8 +
                                                         static_cast<std::size_t>(slot) * 4);
        if (row == 0) {
            return std::nullopt;
        }
        if (load<std::uint64_t>(index_, kIndexHeader + static_cast<std::size_t>(slot) * 8) == id) {
            return row <= units_ ? std::optional(row) : std::nullopt;
        }
    }
    return std::nullopt;
}

int DwoPackage::make_dwo(std::uint64_t id) const {
    const auto row = row_of(id);
    if (!row) {
        return -1;
    }
    // Three tables of `columns_` words in a line: which section, then where in it, then how much.
    const std::size_t kinds = kIndexHeader + std::size_t{slots_} * 12;
    const std::size_t line = std::size_t{columns_} * 4;
    SectionsFile dwo;
    for (std::uint32_t column = 0; column < columns_; ++column) {
        const std::size_t at = kinds + std::size_t{column} * 4;
        const std::size_t kind = load<std::uint32_t>(index_, at);
        if (kind >= kKinds || name_of(kind) == nullptr) {
            continue;
        }
        const Bytes part = slice(sections_[kind], load<std::uint32_t>(index_, at + line * *row),
                                 load<std::uint32_t>(index_, at + line * (*row + units_)));
        if (kind == kStrOffsets) {
            // DWARF 5 has a length, a version and padding before it.
            const Strings strings(part, strings_, is_dwarf5_ ? 8 : 0);
            dwo.add(name_of(kind), strings.offsets);
            dwo.add(".debug_str.dwo", strings.text);
        } else if (!part.empty()) {
            dwo.add(name_of(kind), part);
        } else if (kind == kInfo || kind == kAbbrev) {
            return -1;
        }
    }
    return dwo.make(file_.get());
}

} // namespace memleax
