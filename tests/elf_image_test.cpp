// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/elf_image.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"

// A function of this program that is in its .symtab, found by its name.
extern "C" __attribute__((noinline, used)) int elf_image_test_function() {
    return 42;
}

namespace memleax {
namespace {

std::vector<std::byte> read_bytes(const std::string& path) {
    const std::string text = test::read_file(path);
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

TEST(ElfImage, OwnProgram) {
    const auto opened = ElfImage::open("/proc/self/exe");
    ASSERT_TRUE(opened) << opened.error().message();
    const ElfImage& image = **opened;
    EXPECT_EQ(image.is_64bit(), sizeof(void*) == 8);
    EXPECT_TRUE(image.is_dynamic());
    EXPECT_TRUE(std::filesystem::exists(image.interpreter())) << image.interpreter();
    EXPECT_GE(image.descriptor(), 0);
    EXPECT_FALSE(image.changed_on_disk());

    const auto base = getauxval(AT_PHDR) - sizeof(Elf64_Ehdr); // the headers are mapped first
    const std::uint64_t bias = image.position_independent() ? base : 0;
    const ElfAddr wanted(reinterpret_cast<std::uint64_t>(&elf_image_test_function) - bias);
    int found = 0;
    image.for_each_function(SymbolTable::full, [&](const ElfSymbol& symbol) {
        if (symbol.name == "elf_image_test_function") {
            ++found;
            EXPECT_EQ(symbol.address, wanted);
            EXPECT_GT(symbol.size, 0U);
            EXPECT_FALSE(symbol.indirect);
        }
    });
    EXPECT_EQ(found, 1);
    const auto code = std::count_if(
        image.segments().begin(), image.segments().end(), [&](const ElfSegment& segment) {
            return segment.executable && wanted >= segment.address &&
                   wanted.value() < segment.address.value() + segment.memory_size;
        });
    EXPECT_EQ(code, 1);
}

TEST(ElfImage, LibC) {
    const auto image = ElfImage::open(test::library_path("libc.so.6"));
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_TRUE((*image)->position_independent());
    std::set<std::string_view> names;
    bool indirect_memcpy = false;
    (*image)->for_each_function(SymbolTable::dynamic, [&](const ElfSymbol& symbol) {
        names.insert(symbol.name);
        indirect_memcpy |= symbol.name == "memcpy" && symbol.indirect;
    });
    for (const char* name : {"malloc", "calloc", "realloc", "free", "posix_memalign"}) {
        EXPECT_TRUE(names.contains(name)) << name;
    }
    EXPECT_TRUE(std::none_of(names.begin(), names.end(), [](std::string_view name) {
        return name.find('@') != std::string_view::npos;
    }));
    EXPECT_TRUE(indirect_memcpy);
    const std::string id = (*image)->build_id();
    EXPECT_EQ(id.size(), 40U) << id;
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(ElfImage, FromMemoryIsTheSame) {
    const std::string path = test::library_path("libz.so.1");
    const auto file = ElfImage::open(path);
    const auto copy = ElfImage::from_memory(read_bytes(path), "copy");
    ASSERT_TRUE(file && copy);
    EXPECT_EQ((*copy)->build_id(), (*file)->build_id());
    EXPECT_EQ((*copy)->segments().size(), (*file)->segments().size());
    EXPECT_EQ((*copy)->descriptor(), -1);
    EXPECT_FALSE((*copy)->changed_on_disk());
    EXPECT_FALSE((*copy)->bytes().empty());
}

TEST(ElfImage, WhatIsNoElf) {
    const test::TemporaryFolder folder;
    test::write_file(folder.file("text"), "#!/bin/sh\necho hello\n");
    test::write_file(folder.file("empty"), "");
    const auto text = ElfImage::open(folder.file("text"));
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().message(), folder.file("text") + ": not an ELF file");
    const auto empty = ElfImage::open(folder.file("empty"));
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().message(), folder.file("empty") + ": the file is empty");
    const auto missing = ElfImage::open(folder.file("missing"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().errnum(), ENOENT);
    EXPECT_NE(missing.error().message().find(folder.file("missing")), std::string::npos);
    const auto directory = ElfImage::open("/");
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().message(), "/: not a regular file");
    const auto device = ElfImage::open("/dev/zero");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().message(), "/dev/zero: not a regular file");
    EXPECT_FALSE(ElfImage::from_memory({}, "nothing"));
}

void look_at_everything(const Result<std::shared_ptr<ElfImage>>& image) {
    if (image) {
        std::size_t characters = 0;
        const auto count = [&](const ElfSymbol& symbol) { characters += symbol.name.size(); };
        (*image)->for_each_function(SymbolTable::dynamic, count);
        (*image)->for_each_function(SymbolTable::full, count);
        characters += (*image)->build_id().size();
    }
}

TEST(ElfImage, TruncatedAtEveryLength) {
    const test::TemporaryFolder folder;
    const std::string path = folder.file("libcut.so");
    test::copy_file(test::library_path("libz.so.1"), path);
    std::uint64_t needed = 0; // up to the end of what is loaded
    {
        const auto whole = ElfImage::open(path);
        ASSERT_TRUE(whole);
        for (const ElfSegment& segment : (*whole)->segments()) {
            needed = std::max(needed, segment.offset.value() + segment.file_size);
        }
    }
    for (std::uint64_t size = needed - 1; size > 0; size = size > 4096 ? size - 977 : size - 1) {
        std::filesystem::resize_file(path, size);
        const auto image = ElfImage::open(path);
        ASSERT_FALSE(image) << size;
        EXPECT_EQ(image.error().message().find(path), 0U) << image.error().message();
    }
}

TEST(ElfImage, SectionsCutOff) {
    const test::TemporaryFolder folder;
    const std::string path = folder.file("libcut.so");
    test::copy_file(test::library_path("libz.so.1"), path);
    const auto size = std::filesystem::file_size(path);
    const auto image = ElfImage::open(path);
    ASSERT_TRUE(image);
    std::filesystem::resize_file(path, size / 2); // under our eyes
    EXPECT_TRUE((*image)->changed_on_disk());
    look_at_everything(image);
}

TEST(ElfImage, AVariableOfSeveralIsNotFound) {
    const auto image = ElfImage::open(MEMLEAX_FIXTURES "/probed");
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_TRUE((*image)->find_variable("probed_global"));
    EXPECT_FALSE((*image)->find_variable("probed_twin"));
    EXPECT_FALSE((*image)->find_variable("probed_triplet"));
}

/// As a packer or sstrip leaves a file.
void remove_section_headers(std::vector<std::byte>* bytes) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes->data(), sizeof header);
    bytes->resize(header.e_shoff);
    header.e_shoff = 0;
    header.e_shnum = 0;
    header.e_shstrndx = 0;
    std::memcpy(bytes->data(), &header, sizeof header);
}

TEST(ElfImage, WithoutSectionHeadersTheExportedNamesAreTheSame) {
    for (const char* library : {"libc.so.6", "libz.so.1", "libstdc++.so.6"}) {
        auto bytes = read_bytes(test::library_path(library));
        const auto whole = ElfImage::from_memory(bytes, "whole");
        remove_section_headers(&bytes);
        const auto bare = ElfImage::from_memory(std::move(bytes), "bare");
        ASSERT_TRUE(whole && bare);
        using Function = std::tuple<std::string, std::uint64_t, std::uint64_t, bool>;
        const auto functions = [](const ElfImage& image, SymbolTable table) {
            std::multiset<Function> found;
            image.for_each_function(table, [&](const ElfSymbol& symbol) {
                found.emplace(symbol.name, symbol.address.value(), symbol.size, symbol.indirect);
            });
            return found;
        };
        const auto expected = functions(**whole, SymbolTable::dynamic);
        EXPECT_GT(expected.size(), 50U) << library;
        EXPECT_EQ(functions(**bare, SymbolTable::dynamic), expected) << library;
        EXPECT_EQ((*bare)->build_id(), (*whole)->build_id());
        EXPECT_TRUE(functions(**bare, SymbolTable::full).empty());
    }
}

constexpr std::uint64_t kHole = std::uint64_t{3} << 30U;

/// libz.so.1, changed, with a hole of some gibibytes in its end.
Result<std::shared_ptr<ElfImage>> open_with_hole(const test::TemporaryFolder& folder,
                                                 const std::vector<std::byte>& bytes) {
    const std::string path = folder.file("libhole.so");
    test::write_file(path, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    std::filesystem::resize_file(path, kHole);
    return ElfImage::open(path);
}

void for_each_segment(std::vector<std::byte>* bytes,
                      const std::function<void(Elf64_Phdr*)>& change) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes->data(), sizeof header);
    for (int i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::byte* at = bytes->data() + header.e_phoff + i * sizeof segment;
        std::memcpy(&segment, at, sizeof segment);
        change(&segment);
        std::memcpy(at, &segment, sizeof segment);
    }
}

TEST(ElfImage, NotesWithAHoleAreNotRead) {
    const test::TemporaryFolder folder;
    auto bytes = read_bytes(test::library_path("libz.so.1"));
    for_each_segment(&bytes, [](Elf64_Phdr* segment) {
        if (segment->p_type == PT_NOTE) {
            segment->p_filesz = kHole - segment->p_offset;
        }
    });
    const auto image = open_with_hole(folder, bytes);
    ASSERT_FALSE(image);
    EXPECT_NE(image.error().message().find("notes"), std::string::npos);
}

TEST(ElfImage, NamesWithAHoleAreNotRead) {
    const test::TemporaryFolder folder;
    auto bytes = read_bytes(test::library_path("libz.so.1"));
    remove_section_headers(&bytes);
    for_each_segment(&bytes, [&bytes](Elf64_Phdr* segment) {
        if (segment->p_type == PT_LOAD && segment->p_offset == 0) {
            segment->p_filesz = kHole;
            segment->p_memsz = kHole;
        }
        for (Elf64_Xword at = 0; segment->p_type == PT_DYNAMIC && at < segment->p_filesz;
             at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn entry;
            std::memcpy(&entry, bytes.data() + segment->p_offset + at, sizeof entry);
            if (entry.d_tag == DT_STRSZ) {
                entry.d_un.d_val = kHole / 3 * 2;
                std::memcpy(bytes.data() + segment->p_offset + at, &entry, sizeof entry);
            }
        }
    });
    const auto image = open_with_hole(folder, bytes);
    ASSERT_TRUE(image) << image.error().message();
    int functions = 0;
    (*image)->for_each_function(SymbolTable::dynamic, [&](const ElfSymbol&) { ++functions; });
    EXPECT_EQ(functions, 0);
}

/// Of what PT_DYNAMIC tells by this tag.
std::uint64_t dynamic_value(const std::vector<std::byte>& bytes, Elf64_Sxword tag) {
    std::uint64_t value = 0;
    auto copy = bytes;
    for_each_segment(&copy, [&](Elf64_Phdr* segment) {
        for (Elf64_Xword at = 0; segment->p_type == PT_DYNAMIC && at < segment->p_filesz;
             at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn entry;
            std::memcpy(&entry, bytes.data() + segment->p_offset + at, sizeof entry);
            value = entry.d_tag == tag ? entry.d_un.d_val : value;
        }
    });
    return value;
}

// A chain that does not end was followed to the end of its segment, in steps that took the longer
// the more there had been.
TEST(ElfImage, AHashChainEndsWithTheSymbols) {
    const test::TemporaryFolder folder;
    auto bytes = read_bytes(test::library_path("libz.so.1"));
    remove_section_headers(&bytes);
    const auto count_functions = [](const ElfImage& image) {
        int functions = 0;
        image.for_each_function(SymbolTable::dynamic, [&](const ElfSymbol&) { ++functions; });
        return functions;
    };
    EXPECT_GT(count_functions(**open_with_hole(folder, bytes)), 50);
    // Where the file's first segment is, addresses are offsets.
    const std::uint64_t hash = dynamic_value(bytes, DT_GNU_HASH);
    std::uint32_t header[4];
    std::memcpy(header, &bytes[hash], sizeof header);
    const std::uint64_t buckets = hash + sizeof header + header[2] * sizeof(std::uint64_t);
    const std::uint64_t symbols = dynamic_value(bytes, DT_SYMTAB);
    ASSERT_LT(hash, symbols);
    // From the last symbol on there is nothing but zeros.
    for (std::uint64_t at = buckets + header[0] * sizeof(std::uint32_t); at < symbols; ++at) {
        bytes[at] = std::byte(0);
    }
    for_each_segment(&bytes, [](Elf64_Phdr* segment) {
        if (segment->p_type == PT_LOAD && segment->p_offset == 0) {
            segment->p_filesz = kHole;
            segment->p_memsz = kHole;
        }
    });
    const std::uint32_t last = 0x7fffff00;
    std::memcpy(&bytes[buckets], &last, sizeof last);
    const auto image = open_with_hole(folder, bytes);
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(count_functions(**image), 0);
}

/// Bytes changed here and there, always in the same way. The sanitizers are the judges.
TEST(ElfImage, Malformed) {
    const auto original = read_bytes(test::library_path("libz.so.1"));
    std::uint32_t random = 1;
    const auto next = [&] { return random = random * 1664525 + 1013904223; };
    for (int round = 0; round < 300; ++round) {
        auto bytes = original;
        const std::size_t headers = 64 + 16 * std::size_t{56};
        for (int i = 0; i < 8; ++i) {
            // In the headers at the beginning, in the section headers at the end, anywhere.
            const std::size_t area = next() >> 8U;
            std::size_t at = area % headers;
            if (i % 3 == 1) {
                at = bytes.size() - 1 - area % 2048;
            } else if (i % 3 == 2) {
                at = area % bytes.size();
            }
            bytes[at] = std::byte(next() >> 24U);
        }
        look_at_everything(ElfImage::from_memory(std::move(bytes), "malformed"));
    }
}

TEST(ElfImage, MalformedDynamicSection) {
    auto original = read_bytes(test::library_path("libz.so.1"));
    remove_section_headers(&original);
    Elf64_Ehdr header;
    std::memcpy(&header, original.data(), sizeof header);
    Elf64_Phdr dynamic{};
    for (int i = 0; i < header.e_phnum && dynamic.p_type != PT_DYNAMIC; ++i) {
        std::memcpy(&dynamic, original.data() + header.e_phoff + i * sizeof dynamic,
                    sizeof dynamic);
    }
    ASSERT_EQ(dynamic.p_type, PT_DYNAMIC);
    std::uint32_t random = 1;
    const auto next = [&] { return (random = random * 1664525 + 1013904223) >> 8U; };
    const std::size_t tables = header.e_phoff + header.e_phnum * sizeof dynamic;
    for (int round = 0; round < 2000; ++round) {
        auto bytes = original;
        for (int i = 0; i < 3; ++i) {
            // Its addresses and sizes; the notes, hash tables and symbols, which come first.
            const std::size_t at = next() % 2 == 0 ? dynamic.p_offset + next() % dynamic.p_filesz
                                                   : tables + next() % 4096;
            bytes[at] = std::byte(next());
        }
        const auto image = ElfImage::from_memory(std::move(bytes), "malformed");
        ASSERT_TRUE(image);
        look_at_everything(image);
    }
}

} // namespace
} // namespace memleax
