// SPDX-License-Identifier: GPL-3.0-or-later
// ELF headers, notes (build-id, SystemTap's probes), .symtab, .dynsym, and the dynamic symbols by
// PT_DYNAMIC. From a descriptor, as mapped files are read, and from memory, as the vDSO is.
#include "fuzz_support.hpp"
#include "memleax/elf/sdt_probes.hpp"

using namespace memleax;

namespace {

void read_all(const ElfImage& image) {
    std::uint64_t sum = image.build_id().size() + image.interpreter().size();
    for (const SymbolTable table : {SymbolTable::full, SymbolTable::dynamic}) {
        image.for_each_function(table, [&sum](const ElfSymbol& symbol) {
            FUZZ_CHECK(!symbol.name.empty() || symbol.name.data() != nullptr);
            for (const char c : symbol.name) { // every byte of it is there
                sum += static_cast<std::uint8_t>(c);
            }
        });
    }
    for (const SdtProbe& probe : read_sdt_probes(image.handle())) {
        FUZZ_CHECK(!probe.provider.empty() && !probe.name.empty());
        sum += probe.full_name().size() + probe.arguments.size() + probe.address.value();
    }
    volatile std::uint64_t used = sum;
    static_cast<void>(used);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (const auto image = fuzz::image_of({data, size})) {
        read_all(*image);
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    if (const auto image = ElfImage::from_memory({bytes, bytes + size}, "fuzz")) {
        read_all(**image);
    }
    return 0;
}
