// SPDX-License-Identifier: GPL-3.0-or-later
// A symbol's way from its file to a terminal: demangled, cut short, folded, made printable.
#include "../src/report/function_name.hpp"
#include "fuzz_support.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/folded_name.hpp"
#include "memleax/symbols/symbolizer.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string name(fuzz::text_of({data, size}));
    const std::string plain = demangle(name);
    FUZZ_CHECK(plain.size() <= std::max<std::size_t>(name.size(), std::size_t{64} * 1024));
    for (const std::string& each : {name, plain}) {
        const std::string_view bare = bare_name(each);
        FUZZ_CHECK(bare.data() >= each.data() &&
                   bare.data() + bare.size() <= each.data() + each.size());
        FUZZ_CHECK(folded_name(each).size() <= 2 * each.size()); // a comma gets a space
        const std::string shown = printable(each);
        FUZZ_CHECK(shown == valid_utf8(shown));
        for (const char c : shown) {
            FUZZ_CHECK(static_cast<std::uint8_t>(c) >= 0x20 && c != 0x7f);
        }
        for (const std::string_view obeyed : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6"}) {
            FUZZ_CHECK(shown.find(obeyed) == std::string::npos);
        }
    }
    return 0;
}
