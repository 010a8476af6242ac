// SPDX-License-Identifier: GPL-3.0-or-later
/// From a frame's address to names that a person knows: function, file, line, inlined frames.
/// Never called in the trap path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/proc/generated_code.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/symbols/debug_sources.hpp"
#include "memleax/symbols/module_description.hpp"

namespace memleax {

/// "_ZN3FooC1Ev" to "Foo::Foo()": C++, Rust (legacy and v0) and D by libiberty. Other names pass.
std::string demangle(const std::string& name);

/// The debug information that symbolizers of one thread have in common: that of a program whose
/// processes are many is read once.
class DebugImages;
std::shared_ptr<DebugImages> make_debug_images(DebugSources sources = {});

/// Opens debug information lazily and keeps it; results are cached by (module, address). Has its
/// own libdw sessions, so it may run in another thread than the ModuleMap and the unwinder.
class Symbolizer {
  public:
    struct Options {
        std::string
            main_debug_file; ///< -d FILE: debug information of the program itself; "" if none
        std::shared_ptr<DebugImages> images = nullptr; ///< null: its own
    };
    explicit Symbolizer(Options options);
    ~Symbolizer();
    Symbolizer(const Symbolizer&) = delete;
    Symbolizer& operator=(const Symbolizer&) = delete;

    /// Is this file usable as debug information at all? Called before the attach, for -d.
    static Result<void> check_debug_file(const std::string& path);

    /// Makes the modules known, with their history; call again when there are new ones. `main` is
    /// the program's own.
    void set_modules(std::vector<std::shared_ptr<const Module>> modules, const Module* main);
    /// Code outside of all modules has its names from there. Those that are known already stay.
    void set_generated_code(GeneratedCode code);

    /// At least one frame, at most a few dozen (inlined calls). `generation` is the module list's
    /// when the stack was recorded: names survive dlclose.
    ResolvedFrame resolve(FrameAddress frame, Generation generation);

    ModuleDescription describe(const Module& module);

    /// A piece of a module's data, as of now.
    struct Variable {
        std::string module; ///< last component of its path
        std::string name;   ///< demangled; "": no variable that is known
        std::string file;   ///< last component of its source file's; "" if unknown
        RemoteAddr start;   ///< of the variable, or of the module's load
    };
    /// Nothing outside of all modules.
    std::optional<Variable> find_variable(RemoteAddr address);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace memleax
