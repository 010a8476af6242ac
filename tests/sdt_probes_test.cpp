// SPDX-License-Identifier: GPL-3.0-or-later
// SystemTap's notes: a fixture's own, and what is made of them.
#include "build_paths.hpp"
#include "memleax/elf/sdt_probes.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "memleax/elf/elf_image.hpp"

namespace memleax {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::string probed() {
    return test::read_file(MEMLEAX_FIXTURES "/probed");
}

std::vector<SdtProbe> probes_in(const std::string& file) {
    std::vector<std::byte> bytes(file.size());
    std::memcpy(bytes.data(), file.data(), file.size());
    const auto image = ElfImage::from_memory(std::move(bytes), "probed");
    return image ? read_sdt_probes((*image)->handle()) : std::vector<SdtProbe>{};
}

std::map<std::string, SdtProbe> by_name(const std::vector<SdtProbe>& probes) {
    std::map<std::string, SdtProbe> named;
    for (const SdtProbe& probe : probes) {
        named.emplace(probe.full_name(), probe);
    }
    return named;
}

/// Changes every note of the file; `note` is where its header begins.
std::string with_notes(std::string file, const std::function<void(char* note)>& change) {
    const std::string name("stapsdt\0", 8);
    constexpr std::size_t kHeader = 12;
    int notes = 0;
    for (std::size_t at = 0; (at = file.find(name, at)) != std::string::npos; ++at) {
        std::uint32_t header[3];
        std::memcpy(header, &file[at - kHeader], sizeof header);
        if (header[0] == name.size() && header[2] == 3) {
            change(&file[at - kHeader]);
            ++notes;
        }
    }
    EXPECT_GE(notes, 10);
    return file;
}

TEST(SdtProbes, ReadsWhatAProgramHas) {
    const auto probes = by_name(probes_in(probed()));
    std::vector<std::string> names;
    for (const auto& [name, probe] : probes) {
        names.push_back(name);
    }
    EXPECT_THAT(names, IsSupersetOf({"demo:constant", "demo:global", "demo:guarded", "demo:stack",
                                     "demo:step", "demo:twin_one", "demo:twin_two"}));
    EXPECT_EQ(probes.at("demo:twin_one").address, probes.at("demo:twin_two").address);
    EXPECT_FALSE(probes.at("demo:step").semaphore);
    EXPECT_TRUE(probes.at("demo:guarded").semaphore);
    for (const auto& [name, probe] : probes) {
        EXPECT_EQ(probe.is_sound, probe.provider == "demo" || name == "lie:within") << name;
    }
    EXPECT_TRUE(probes.at("demo:constant").arguments.ends_with("42"))
        << probes.at("demo:constant").arguments;
}

// prelink(8) moves code and .stapsdt.base, and leaves the notes as they were.
TEST(SdtProbes, FollowTheirBase) {
    constexpr std::uint64_t kMoved = 0x10;
    constexpr std::size_t kBaseAt = 12 + 8 + 8;
    const std::string file = probed();
    const auto before = by_name(probes_in(file));
    const auto after = by_name(probes_in(with_notes(file, [](char* note) {
        std::uint64_t base = 0;
        std::memcpy(&base, note + kBaseAt, sizeof base);
        base -= kMoved;
        std::memcpy(note + kBaseAt, &base, sizeof base);
    })));
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, probe] : before) {
        EXPECT_EQ(after.at(name).address.value(), probe.address.value() + kMoved) << name;
        if (probe.semaphore) {
            EXPECT_EQ(after.at(name).semaphore->value(), probe.semaphore->value() + kMoved);
        }
    }
}

TEST(SdtProbes, OfNotesThatAreMalformed) {
    const std::string file = probed();
    const auto with_sizes = [&file](std::uint32_t name, std::uint32_t description) {
        return probes_in(with_notes(file, [=](char* note) {
            std::memcpy(note, &name, sizeof name);
            std::memcpy(note + sizeof name, &description, sizeof description);
        }));
    };
    EXPECT_THAT(with_sizes(8, 0xffffffff), IsEmpty());
    EXPECT_THAT(with_sizes(0xffffffff, 40), IsEmpty());
    EXPECT_THAT(with_sizes(8, 23), IsEmpty()); // the addresses are cut
    EXPECT_THAT(with_sizes(8, 24), IsEmpty()); // there are no names
    // Neither owner nor type are others'.
    EXPECT_THAT(probes_in(with_notes(file, [](char* note) { note[12] = 'S'; })), IsEmpty());
    EXPECT_THAT(probes_in(with_notes(file, [](char* note) { note[8] = 4; })), IsEmpty());
}

TEST(SdtProbes, NoneWithoutAFile) {
    EXPECT_THAT(read_sdt_probes(nullptr), IsEmpty());
    const std::string none = test::read_file(MEMLEAX_FIXTURES "/expiring");
    ASSERT_FALSE(none.empty());
    EXPECT_THAT(probes_in(none), IsEmpty());
}

} // namespace
} // namespace memleax
