// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/sdt_probes.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <gelf.h>

#include "memleax/elf/elf_file.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostProbes = 65'536;
constexpr std::string_view kOwner{"stapsdt\0", 8}; // with its null byte, as namesz counts it
constexpr unsigned kProbeNote = 3;                 // NT_STAPSDT
constexpr const char* kNotes = ".note.stapsdt";
constexpr const char* kBase = ".stapsdt.base";

/// The text up to the next null byte, which is taken off with it; nothing if there is none.
std::optional<std::string> take_text(std::string_view* bytes) {
    const std::size_t length = bytes->find('\0');
    if (length == std::string_view::npos) {
        return std::nullopt;
    }
    std::string text(bytes->substr(0, length));
    bytes->remove_prefix(length + 1);
    return text;
}

/// Three addresses (the probe's, that of .stapsdt.base, the semaphore's), then three texts.
/// `base` is where .stapsdt.base is now: prelink(8) moves code, and leaves the notes as they were.
std::optional<SdtProbe> parse_note(std::string_view description,
                                   std::optional<std::uint64_t> base) {
    std::array<std::uint64_t, 3> addresses{};
    if (description.size() < sizeof addresses) {
        return std::nullopt;
    }
    std::memcpy(addresses.data(), description.data(), sizeof addresses);
    description.remove_prefix(sizeof addresses);
    const std::uint64_t moved_by = base ? *base - addresses[1] : 0;
    auto provider = take_text(&description);
    auto name = take_text(&description);
    auto arguments = take_text(&description);
    if (!provider || !name || provider->empty() || name->empty()) {
        return std::nullopt;
    }
    SdtProbe probe;
    probe.provider = *std::move(provider);
    probe.name = *std::move(name);
    probe.address = ElfAddr(addresses[0] + moved_by);
    if (addresses[2] != 0) {
        probe.semaphore = ElfAddr(addresses[2] + moved_by);
    }
    probe.arguments = arguments.value_or("");
    return probe;
}

/// Is all of it in such a segment? Code ends with what the file has; data has zeros behind that.
bool lies_in(Elf* elf, ElfAddr address, std::uint64_t size, unsigned flags) {
    std::size_t count = 0;
    elf_getphdrnum(elf, &count);
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr ||
            segment.p_type != PT_LOAD || (segment.p_flags & (PF_W | PF_X)) != flags) {
            continue;
        }
        const std::uint64_t bytes = flags == PF_X ? segment.p_filesz : segment.p_memsz;
        if (address.value() >= segment.p_vaddr && size <= bytes &&
            address.value() - segment.p_vaddr <= bytes - size) {
            return true;
        }
    }
    return false;
}

bool is_sound(Elf* elf, const SdtProbe& probe) {
    constexpr std::uint64_t kCounterBytes = 2;
    return lies_in(elf, probe.address, 1, PF_X) &&
           (!probe.semaphore || lies_in(elf, *probe.semaphore, kCounterBytes, PF_W));
}

void read_notes(Elf* elf, Elf_Scn* section, std::optional<std::uint64_t> base,
                std::vector<SdtProbe>* probes) {
    Elf_Data* data = read_section(section);
    if (data == nullptr || data->d_buf == nullptr) {
        return;
    }
    const std::string_view bytes(static_cast<const char*>(data->d_buf), data->d_size);
    GElf_Nhdr header;
    std::size_t name_at = 0;
    std::size_t description_at = 0;
    for (std::size_t at = 0; probes->size() < kMostProbes;) {
        const std::size_t next = gelf_getnote(data, at, &header, &name_at, &description_at);
        if (next <= at) {
            return; // malformed, or the end
        }
        at = next;
        if (header.n_type != kProbeNote || bytes.substr(name_at, header.n_namesz) != kOwner) {
            continue;
        }
        if (auto probe = parse_note(bytes.substr(description_at, header.n_descsz), base)) {
            probe->is_sound = is_sound(elf, *probe);
            probes->push_back(*std::move(probe));
        }
    }
}

} // namespace

std::vector<SdtProbe> read_sdt_probes(Elf* elf) {
    std::vector<SdtProbe> probes;
    std::size_t names = 0;
    // Watched programs are 64-bit and little-endian, like us.
    if (elf == nullptr || gelf_getclass(elf) != ELFCLASS64 || elf_getshdrstrndx(elf, &names) != 0) {
        return probes;
    }
    std::optional<std::uint64_t> base;
    std::vector<Elf_Scn*> notes;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
        GElf_Shdr header;
        const char* name = gelf_getshdr(section, &header) != nullptr
                               ? elf_strptr(elf, names, header.sh_name)
                               : nullptr;
        if (name == nullptr) {
            continue;
        }
        if (header.sh_type == SHT_NOTE && std::strcmp(name, kNotes) == 0) {
            notes.push_back(section);
        } else if (std::strcmp(name, kBase) == 0) {
            base = header.sh_addr;
        }
    }
    for (Elf_Scn* section : notes) {
        read_notes(elf, section, base, &probes);
    }
    return probes;
}

} // namespace memleax
