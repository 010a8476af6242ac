// SPDX-License-Identifier: GPL-3.0-or-later
/// Where the probes that are asked for are: in a file, and in a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/probes/probe_argument.hpp"
#include "memleax/probes/probe_requests.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// In a process.
struct ProbePlace {
    std::string name; ///< "libc:memory_heap_new", or a function's
    CodeAddr address;
    bool is_function = false;
    std::optional<RemoteAddr> semaphore;  ///< see SdtProbe
    std::vector<ProbeArgument> arguments; ///< none of a function: see arch::argument
};

/// What a file has of those that are asked for. Of its thread; the image must be there.
struct ProbePoints {
    std::vector<SdtProbe> sdt;
    struct Function {
        std::string name;
        ElfAddr address;
        bool indirect = false; ///< it is chosen at run time (STT_GNU_IFUNC)
    };
    std::vector<Function> functions;

    /// From a symbol table; the same one may come twice.
    void add_function(const ElfSymbol& symbol);
    /// Notes that lie are left out: a probe outside of code, a semaphore outside of data.
    void add_sdt(const ElfImage& image, const ProbeRequests& requests);
    /// In the module that the file is mapped as. Functions that are chosen at run time are not
    /// among them.
    [[nodiscard]] std::vector<ProbePlace> places(const Module& module) const;
};

} // namespace memleax
