// SPDX-License-Identifier: GPL-3.0-or-later
/// What the fuzz targets share: taking an input apart, ELF images of it, and checks that stop the
/// fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

/// The fuzzer takes a trap for a crash, and keeps the input.
#define FUZZ_CHECK(condition) ((condition) ? static_cast<void>(0) : std::abort())

namespace memleax::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// An input that is used up from its beginning; at its end everything is 0 or empty.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
    Bytes bytes(std::size_t count) {
        const Bytes taken = rest_.first(std::min(count, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    template <class T> T number() {
        T value{};
        const Bytes taken = bytes(sizeof value);
        if (!taken.empty()) {
            std::memcpy(&value, taken.data(), taken.size());
        }
        return value;
    }
    Bytes rest() { return bytes(rest_.size()); }
    [[nodiscard]] bool empty() const { return rest_.empty(); }

  private:
    Bytes rest_;
};

inline std::string_view text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes as a file that has no name: how libelf reads what a process has mapped.
int memory_file(Bytes bytes);
/// Null if it is refused.
std::shared_ptr<ElfImage> image_of(Bytes bytes);
/// The image, mapped as its executable segments are, at bias 0.
std::shared_ptr<Module> module_of(std::shared_ptr<ElfImage> image);
/// Up to `count` addresses in the executable segments and of the first functions.
std::vector<std::uint64_t> addresses_in(const ElfImage& image, std::size_t count);

/// A small shared object that has these sections, besides one with a page of code.
struct Section {
    std::string name;
    std::uint32_t type;
    Bytes contents;
};
std::vector<std::uint8_t> elf_with(const std::vector<Section>& sections);

/// Memory that holds the input, again and again, from an address on.
class RepeatedMemory final : public MemoryReader {
  public:
    RepeatedMemory(std::uint64_t begin, std::uint64_t size, Bytes pattern)
        : begin_(begin), size_(size), pattern_(pattern) {}
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override;

  private:
    std::uint64_t begin_;
    std::uint64_t size_;
    Bytes pattern_;
};

} // namespace memleax::fuzz
