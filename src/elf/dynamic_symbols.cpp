// SPDX-License-Identifier: GPL-3.0-or-later
#include "dynamic_symbols.hpp"

#include <algorithm>
#include <cstdint>

#include "memleax/elf/elf_file.hpp"

namespace memleax {

namespace {

/// The bytes of the file behind an address, up to the end of their segment.
struct FilePart {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// What PT_DYNAMIC tells (gabi, "Dynamic Section"); 0: it does not.
struct DynamicTags {
    GElf_Addr symbols = 0;
    GElf_Addr names = 0;
    std::uint64_t names_size = 0;
    GElf_Addr hash = 0;
    GElf_Addr gnu_hash = 0;
};

/// Reads tables by address, as the dynamic linker does, from the file.
class DynamicReader {
  public:
    DynamicReader(Elf* elf, const std::vector<ElfSegment>& segments)
        : elf_(elf), segments_(segments) {}

    [[nodiscard]] std::optional<DynamicTags> tags() const;
    /// All of the file's bytes from this address on, or the first `size` of them.
    [[nodiscard]] std::optional<FilePart> part_at(GElf_Addr address) const;
    [[nodiscard]] Elf_Data* data(const FilePart& part, std::uint64_t size, Elf_Type type) const;
    /// A table of 32-bit words; nothing if it is not all there.
    [[nodiscard]] const std::uint32_t* words(FilePart part, std::uint64_t first,
                                             std::uint64_t count) const;

    [[nodiscard]] std::uint64_t count_by_hash(GElf_Addr address) const;
    /// 0 also if there are more than `most`.
    [[nodiscard]] std::uint64_t count_by_gnu_hash(GElf_Addr address, std::uint64_t most) const;

  private:
    Elf* elf_;
    const std::vector<ElfSegment>& segments_;
};

std::optional<DynamicTags> DynamicReader::tags() const {
    std::size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr header;
        if (gelf_getphdr(elf_, static_cast<int>(i), &header) == nullptr ||
            header.p_type != PT_DYNAMIC) {
            continue;
        }
        Elf_Data* table = data({header.p_offset, header.p_filesz}, header.p_filesz, ELF_T_DYN);
        if (table == nullptr) {
            return std::nullopt;
        }
        DynamicTags tags;
        GElf_Dyn entry;
        for (int n = 0; gelf_getdyn(table, n, &entry) != nullptr && entry.d_tag != DT_NULL; ++n) {
            switch (entry.d_tag) {
            case DT_SYMTAB:
                tags.symbols = entry.d_un.d_ptr;
                break;
            case DT_STRTAB:
                tags.names = entry.d_un.d_ptr;
                break;
            case DT_STRSZ:
                tags.names_size = entry.d_un.d_val;
                break;
            case DT_HASH:
                tags.hash = entry.d_un.d_ptr;
                break;
            case DT_GNU_HASH:
                tags.gnu_hash = entry.d_un.d_ptr;
                break;
            default:
                break;
            }
        }
        return tags;
    }
    return std::nullopt;
}

std::optional<FilePart> DynamicReader::part_at(GElf_Addr address) const {
    for (const ElfSegment& segment : segments_) {
        const std::uint64_t begin = segment.address.value();
        if (address >= begin && address - begin < segment.file_size) {
            return FilePart{segment.offset.value() + (address - begin),
                            segment.file_size - (address - begin)};
        }
    }
    return std::nullopt;
}

Elf_Data* DynamicReader::data(const FilePart& part, std::uint64_t size, Elf_Type type) const {
    if (size == 0 || size > part.size || size > kMostElfTable) {
        return nullptr;
    }
    return elf_getdata_rawchunk(elf_, static_cast<std::int64_t>(part.offset), size, type);
}

const std::uint32_t* DynamicReader::words(FilePart part, std::uint64_t first,
                                          std::uint64_t count) const {
    constexpr std::uint64_t kWord = sizeof(std::uint32_t);
    if (first > part.size / kWord || count > part.size / kWord - first) {
        return nullptr;
    }
    part.offset += first * kWord;
    part.size -= first * kWord;
    const Elf_Data* table = data(part, count * kWord, ELF_T_WORD);
    return table != nullptr ? static_cast<const std::uint32_t*>(table->d_buf) : nullptr;
}

/// nbucket, nchain, ...: there is a chain entry for each symbol (gabi, "Hash Table").
std::uint64_t DynamicReader::count_by_hash(GElf_Addr address) const {
    const auto part = part_at(address);
    const std::uint32_t* header = part ? words(*part, 0, 2) : nullptr;
    return header != nullptr ? header[1] : 0;
}

/// nbuckets, symoffset, bloom_size, bloom_shift, bloom words (as wide as an address), buckets,
/// chains. The symbols are sorted by bucket; the last one is at the end of the chain that the
/// highest bucket begins, where a chain's last entry has its lowest bit set.
std::uint64_t DynamicReader::count_by_gnu_hash(GElf_Addr address, std::uint64_t most) const {
    const auto part = part_at(address);
    const std::uint32_t* header = part ? words(*part, 0, 4) : nullptr;
    if (header == nullptr) {
        return 0;
    }
    const std::uint64_t buckets_count = header[0];
    const std::uint64_t first_symbol = header[1];
    const std::uint64_t bloom_words =
        std::uint64_t{header[2]} * (gelf_getclass(elf_) == ELFCLASS64 ? 2 : 1);
    const std::uint64_t buckets_at = 4 + bloom_words;
    const std::uint32_t* buckets = words(*part, buckets_at, buckets_count);
    if (buckets == nullptr) {
        return 0;
    }
    const std::uint64_t last = *std::max_element(buckets, buckets + buckets_count);
    if (last < first_symbol) {
        return first_symbol; // no symbol is hashed
    }
    // In one piece: libelf keeps each that it has read, and looks through all of them for the next.
    const std::uint64_t at = buckets_at + buckets_count + (last - first_symbol);
    const std::uint64_t words_there = part->size / sizeof(std::uint32_t);
    const std::uint64_t count =
        last < most && at < words_there ? std::min(most - last, words_there - at) : 0;
    const std::uint32_t* chain = count != 0 ? words(*part, at, count) : nullptr;
    if (chain == nullptr) {
        return 0;
    }
    const auto* const end =
        std::find_if(chain, chain + count, [](std::uint32_t hash) { return (hash & 1) != 0; });
    return end != chain + count ? last + static_cast<std::uint64_t>(end - chain) + 1 : 0;
}

} // namespace

std::optional<SymbolEntries> find_dynamic_symbols(Elf* elf,
                                                  const std::vector<ElfSegment>& segments) {
    const DynamicReader reader(elf, segments);
    const auto tags = reader.tags();
    if (!tags) {
        return std::nullopt;
    }
    const auto symbols = reader.part_at(tags->symbols);
    const auto names = reader.part_at(tags->names);
    if (!symbols || !names) {
        return std::nullopt;
    }
    const std::uint64_t entry = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
    const std::uint64_t most = symbols->size / entry;
    std::uint64_t count = tags->gnu_hash != 0 ? reader.count_by_gnu_hash(tags->gnu_hash, most) : 0;
    if (count == 0 && tags->hash != 0) {
        count = reader.count_by_hash(tags->hash);
    }
    if (count > most) {
        return std::nullopt;
    }
    SymbolEntries result;
    result.count = count;
    result.symbols = reader.data(*symbols, count * entry, ELF_T_SYM);
    const Elf_Data* text = reader.data(*names, tags->names_size, ELF_T_BYTE);
    if (result.symbols == nullptr || text == nullptr) {
        return std::nullopt;
    }
    result.names = StringTable(text);
    return result;
}

} // namespace memleax
