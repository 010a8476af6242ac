// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/symbols/symbolizer.hpp"

#include <algorithm>

#include <absl/container/flat_hash_map.h>

#include "debug_image.hpp"
#include "elf_files_only.hpp"
#include "function_part.hpp"
#include "inlined_frames.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/perf_map.hpp"
#include "truncation_guard.hpp"

namespace memleax {

class DebugImages {
  public:
    explicit DebugImages(DebugSources sources) : sources_(std::move(sources)) {}
    DebugImages(const DebugImages&) = delete;
    DebugImages& operator=(const DebugImages&) = delete;
    ~DebugImages() {
        const TruncationGuard guard; // libdw may look at what it frees
        images_.clear();
    }
    /// For this one, whichever process asks first.
    void use_debug_file(const ElfImage* image, const std::string& debug_file) {
        debug_files_.try_emplace(image, debug_file);
    }
    /// Null if the file cannot be opened again.
    DebugImage* open(const Module& module) {
        const auto [entry, is_new] = images_.try_emplace(module.image.get());
        if (is_new) {
            const auto file = debug_files_.find(module.image.get());
            entry->second =
                DebugImage::open(module, file != debug_files_.end() ? file->second : "", sources_);
        }
        return entry->second.get();
    }

  private:
    const DebugSources sources_;
    absl::flat_hash_map<const ElfImage*, std::string> debug_files_;
    absl::flat_hash_map<const ElfImage*, std::unique_ptr<DebugImage>> images_;
};

std::shared_ptr<DebugImages> make_debug_images(DebugSources sources) {
    return std::make_shared<DebugImages>(std::move(sources));
}

struct Symbolizer::Impl {
    /// A module as we know it: snapshots of it come and go.
    struct Known {
        std::shared_ptr<const Module> module;
        bool program = false;
        bool truncated = false; ///< and the user has been told
    };
    using Key = std::pair<FrameAddress, const Known*>; ///< null: in no module

    Options options;
    std::vector<std::unique_ptr<Known>> modules; ///< only grows
    GeneratedCode generated;
    std::unique_ptr<PerfMapFile> perf_map; ///< made when it is first asked for
    absl::flat_hash_map<Key, ResolvedFrame> cache;

    Known* find(CodeAddr pc, Generation generation) const;
    DebugImage* debug_image(const Known& known);
    std::vector<SourceFrame> look_up(FrameAddress frame, Known* known);
    SourceFrame look_up_generated(FrameAddress frame);
};

namespace {

constexpr std::size_t kMaxSymbolName = std::size_t{64} * 1024; // a name may be as long as its file

bool is_same(const Module& a, const Module& b) {
    return a.loaded == b.loaded && a.load_bias == b.load_bias && a.device == b.device &&
           a.inode == b.inode && a.executable == b.executable;
}

bool has_code_at(const Module& module, CodeAddr pc) {
    return std::any_of(module.executable.begin(), module.executable.end(),
                       [pc](AddrRange range) { return range.contains(pc); });
}

} // namespace

/// A stack may have been recorded after a library was loaded, and before we looked: then the pc is
/// in what was first seen there later.
Symbolizer::Impl::Known* Symbolizer::Impl::find(CodeAddr pc, Generation generation) const {
    Known* later = nullptr;
    for (const auto& known : modules) {
        const Module& module = *known->module;
        if (!has_code_at(module, pc)) {
            continue;
        }
        if (module.loaded > generation) {
            if (later == nullptr || module.loaded < later->module->loaded) {
                later = known.get();
            }
        } else if (!module.unloaded || generation < *module.unloaded) {
            return known.get();
        }
    }
    return later;
}

DebugImage* Symbolizer::Impl::debug_image(const Known& known) {
    return known.module->image != nullptr ? options.images->open(*known.module) : nullptr;
}

std::vector<SourceFrame> Symbolizer::Impl::look_up(FrameAddress frame, Known* known) {
    const TruncationGuard guard;
    const ElfFilesOnly opens(known != nullptr ? known->module->root.get() : nullptr);
    DwarfFrames found;
    found.frames.resize(1);
    DebugImage* image = known != nullptr ? debug_image(*known) : nullptr;
    if (image != nullptr) {
        const ElfAddr address = known->module->to_elf(frame.lookup_pc());
        const ElfAddr pc = known->module->to_elf(frame.pc());
        std::int64_t dwarf_bias = 0;
        if (const auto unit = image->find_unit(address)) {
            found = find_dwarf_frames(unit->unit, *unit->functions, unit->address);
            dwarf_bias = static_cast<std::int64_t>(address.value() - unit->address);
        }
        SourceFrame& outermost = found.frames.back();
        if (const auto symbol = image->symbols().find(address)) {
            const FunctionPart part = part_of(symbol->name.substr(0, kMaxSymbolName));
            outermost.function = demangle(std::string(part.function));
            if (!part.is_elsewhere) {
                outermost.offset = pc.value() - symbol->start.value();
            }
        } else if (found.function_start) {
            const std::uint64_t start =
                *found.function_start + static_cast<std::uint64_t>(dwarf_bias);
            if (pc.value() >= start) { // a part that is away from it may be before it
                outermost.offset = pc.value() - start;
            }
        }
    }
    if (known != nullptr && found.frames.back().function.empty()) {
        found.frames.back().module_offset = known->module->to_elf(frame.pc()).value();
    }
    if (guard.noticed() && known != nullptr && !known->truncated) {
        known->truncated = true;
        log_warning("{}: a file with its symbols or debug information was truncated while it was "
                    "read: names may be missing",
                    known->module->name);
    }
    if (known == nullptr) {
        found.frames.back() = look_up_generated(frame);
    }
    for (SourceFrame& each : found.frames) {
        each.pc = frame.pc();
        each.is_return_address = frame.is_return_address();
        each.module = known != nullptr ? known->module->name : each.module;
    }
    return std::move(found.frames);
}

SourceFrame Symbolizer::Impl::look_up_generated(FrameAddress frame) {
    SourceFrame result;
    if (generated.own_number == 0) {
        return result;
    }
    const ElfFilesOnly::Suspended it_is_text;
    if (perf_map == nullptr) {
        perf_map =
            std::make_unique<PerfMapFile>(generated.root, generated.own_number, generated.owner);
    }
    if (const auto* function = perf_map->find(frame.lookup_pc())) {
        result.function = function->name;
        result.offset = frame.pc().value() - function->begin;
        result.module = perf_map->name();
    }
    return result;
}

Symbolizer::Symbolizer(Options options) : impl_(std::make_unique<Impl>()) {
    impl_->options = std::move(options);
    if (impl_->options.images == nullptr) {
        impl_->options.images = make_debug_images();
    }
}

Symbolizer::~Symbolizer() = default;

void Symbolizer::set_modules(std::vector<std::shared_ptr<const Module>> modules,
                             const Module* main) {
    for (std::size_t i = 0; i < modules.size(); ++i) {
        auto& module = modules[i];
        const bool program = module.get() == main || (main != nullptr && is_same(*module, *main));
        const auto is_known = [&](const auto& each) { return is_same(*each->module, *module); };
        // The list only grows, so what is known mostly stands where it stood.
        auto known = impl_->modules.begin() +
                     static_cast<std::ptrdiff_t>(std::min(i, impl_->modules.size()));
        if (known == impl_->modules.end() || !is_known(*known)) {
            known = std::find_if(impl_->modules.begin(), impl_->modules.end(), is_known);
        }
        if (program && module->image && !impl_->options.main_debug_file.empty()) {
            impl_->options.images->use_debug_file(module->image.get(),
                                                  impl_->options.main_debug_file);
        }
        if (known == impl_->modules.end()) {
            impl_->modules.push_back(
                std::make_unique<Impl::Known>(Impl::Known{std::move(module), program}));
        } else { // it may have been unloaded since
            (*known)->module = std::move(module);
        }
    }
}

void Symbolizer::set_generated_code(GeneratedCode code) {
    impl_->generated = std::move(code);
}

ResolvedFrame Symbolizer::resolve(FrameAddress frame, Generation generation) {
    Impl::Known* known = impl_->find(frame.lookup_pc(), generation);
    ResolvedFrame& cached = impl_->cache[Impl::Key(frame, known)];
    // The names of generated code may come later than the code.
    if (cached == nullptr || (known == nullptr && cached->back().function.empty())) {
        cached = std::make_shared<const std::vector<SourceFrame>>(impl_->look_up(frame, known));
    }
    return cached;
}

ModuleDescription Symbolizer::describe(const Module& module) {
    const TruncationGuard guard;
    const ElfFilesOnly opens(module.root.get());
    const auto known =
        std::find_if(impl_->modules.begin(), impl_->modules.end(),
                     [&module](const auto& each) { return is_same(*each->module, module); });
    DebugImage* image = known != impl_->modules.end() ? impl_->debug_image(**known) : nullptr;
    return image != nullptr ? image->describe()
                            : ModuleDescription{"the file cannot be read again"};
}

std::optional<Symbolizer::Variable> Symbolizer::find_variable(RemoteAddr address) {
    const auto known =
        std::find_if(impl_->modules.begin(), impl_->modules.end(), [address](const auto& each) {
            return !each->module->unloaded && each->module->range.contains(address);
        });
    if (known == impl_->modules.end()) {
        return std::nullopt;
    }
    const Module& module = *(*known)->module;
    const TruncationGuard guard;
    const ElfFilesOnly opens(module.root.get());
    DebugImage* image = impl_->debug_image(**known);
    const auto found = image != nullptr
                           ? image->variables().find(ElfAddr(address.value() - module.load_bias))
                           : std::nullopt;
    if (!found) {
        return Variable{module.name, "", "", RemoteAddr(module.range.begin)};
    }
    return Variable{module.name, demangle(std::string(found->name.substr(0, kMaxSymbolName))),
                    std::string(found->file), RemoteAddr(found->start.value() + module.load_bias)};
}

} // namespace memleax
