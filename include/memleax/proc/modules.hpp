// SPDX-License-Identifier: GPL-3.0-or-later
/// The modules (program, shared libraries, vDSO) of a process, now and in the past.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/target_root.hpp"

namespace memleax {

/// Counts changes of a process's module list; a (pc, generation) pair names one piece of code for
/// ever.
using Generation = std::uint32_t;

/// A file mapped into the target with at least one executable mapping.
struct Module {
    std::string path;                  ///< as the target names it ("[vdso]" for the vDSO)
    std::string name;                  ///< last component of the path
    AddrRange range;                   ///< all of its load, with .bss and what lies in between
    std::vector<AddrRange> executable; ///< its executable mappings, ascending
    std::uint64_t load_bias = 0;       ///< runtime address - ElfAddr
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::shared_ptr<ElfImage> image; ///< null if the file could not be had
    std::string problem;             ///< why image is null, for the user
    bool is_elf = true;              ///< false: it is a compiler's at run time (a memfd, a cache)
    std::shared_ptr<const TargetRoot> root; ///< what `path` is a path in; null: our own root
    Generation loaded = 0;                  ///< first generation in which it was seen
    std::optional<Generation> unloaded;     ///< first generation in which it was gone

    [[nodiscard]] ElfAddr to_elf(CodeAddr pc) const { return ElfAddr(pc.value() - load_bias); }
    [[nodiscard]] CodeAddr to_runtime(ElfAddr a) const { return CodeAddr(a.value() + load_bias); }
};

/// What one look at the process changed.
struct ModuleChanges {
    std::vector<std::shared_ptr<const Module>> added;
    std::vector<std::shared_ptr<const Module>> removed;
};

/// The list of modules. Not thread-safe, but Module objects never change after they have been
/// published except for `unloaded`, and snapshots (`all()`) may be handed to other threads.
class ModuleMap {
  public:
    /// `memory` (for the vDSO) must outlive the map. Files that `relative`, which may be null, or
    /// another relative of that has got open are not opened again: a child's are mostly its
    /// parent's, and what a shell executes a thousand times is open once. All are one thread's.
    ModuleMap(Tid pid, MemoryReader& memory, const ModuleMap* relative = nullptr);

    /// Reads /proc/PID/maps anew and opens the files of new modules: through /proc/PID/map_files
    /// where we may (right even when the file was deleted, replaced, or is in another mount
    /// namespace), else through /proc/PID/root + path, with device and inode compared. Does nothing
    /// but bookkeeping for modules that stayed. Gone modules are kept, with `unloaded` set.
    Result<ModuleChanges> refresh();

    /// Reads /proc/PID/maps anew for code that is no module's: a compiler that runs in the process
    /// does not tell when it maps pages. Modules stay as they are, and what is mapped of files that
    /// are none of theirs is such code, too, until the next refresh(). True if there was news.
    bool look_for_generated_code();

    /// The address space was replaced (exec): the next refresh() finds all modules new, also where
    /// they look the same.
    void forget_all();

    /// The module whose executable mapping holds this pc now; null for anonymous code or none.
    [[nodiscard]] const Module* find(CodeAddr pc) const;
    /// Is there any executable mapping (a module's or anonymous, as JIT code) at this pc, as of the
    /// last refresh?
    [[nodiscard]] bool is_executable(CodeAddr pc) const;
    /// All mappings as of the last refresh, ascending.
    [[nodiscard]] const std::vector<Mapping>& mappings() const { return mappings_; }
    /// Every module ever seen, in order of appearance.
    [[nodiscard]] const std::vector<std::shared_ptr<Module>>& all() const { return all_; }
    /// The program's own module (what /proc/PID/exe refers to: the dynamic linker, if that was run
    /// by hand); null before the first refresh.
    [[nodiscard]] const Module* main() const { return main_.get(); }
    [[nodiscard]] Generation generation() const { return generation_; }

  private:
    struct CodeRange {
        AddrRange range;
        const Module* module = nullptr; ///< null: anonymous
        bool operator==(const CodeRange&) const = default;
    };
    struct Found;
    struct OpenFiles;
    [[nodiscard]] Found find_modules(const std::vector<Mapping>& mappings);
    ModuleChanges publish(Found& found, const std::vector<Mapping>& mappings);
    [[nodiscard]] const CodeRange* code_range(CodeAddr pc) const;

    Tid pid_;
    MemoryReader& memory_;
    std::vector<Mapping> mappings_;
    std::shared_ptr<OpenFiles> opened_; ///< of all relatives
    std::vector<std::shared_ptr<Module>> all_;
    std::vector<std::shared_ptr<Module>> current_;
    std::shared_ptr<Module> main_;
    std::shared_ptr<const TargetRoot> root_;
    std::vector<CodeRange> code_; ///< ascending, for find()
    Generation generation_ = 0;
};

} // namespace memleax
