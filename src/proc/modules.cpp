// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/modules.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <tuple>

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "module_file.hpp"

namespace memleax {

namespace {

constexpr std::string_view kVdso = "[vdso]";

bool may_be_module(const Mapping& mapping) {
    return mapping.executable && (mapping.inode != 0 || mapping.path == kVdso);
}

/// device, inode, and for the vDSO, which has neither, its address
using FileKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

FileKey file_key(const Mapping& mapping) {
    return {mapping.device, mapping.inode, mapping.inode == 0 ? mapping.range.begin : 0};
}

FileKey file_key(const Module& module) {
    return {module.device, module.inode, module.inode == 0 ? module.executable.front().begin : 0};
}

struct File {
    std::shared_ptr<ElfImage> image;
    std::string problem;
    bool is_elf = true;
};

/// Of a file that we could not open: a module has its ELF header in its memory, as the dynamic
/// linker maps a file from its begin on.
bool begins_as_elf(const Mapping& code, const std::vector<Mapping>& mappings,
                   MemoryReader& memory) {
    constexpr std::string_view kMagic = "\177ELF";
    return std::any_of(mappings.begin(), mappings.end(), [&](const Mapping& mapping) {
        std::array<char, kMagic.size()> bytes{};
        return file_key(mapping) == file_key(code) && mapping.offset.value() == 0 &&
               memory.try_read(mapping.range.start(), std::as_writable_bytes(std::span(bytes))) ==
                   bytes.size() &&
               std::string_view(bytes.data(), bytes.size()) == kMagic;
    });
}

/// One load of a file. Not its path: a file that is renamed while it is mapped changes it.
using LoadKey = std::pair<FileKey, std::uint64_t>;

LoadKey load_key(const Module& module) {
    return {file_key(module), module.load_bias};
}

bool may_be_of(const ElfSegment& segment, const Mapping& mapping) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = segment.offset.value() / page * page;
    const std::uint64_t end = segment.offset.value() + segment.file_size;
    return mapping.offset.value() >= begin && mapping.offset.value() < end;
}

std::uint64_t bias_by(const ElfSegment& segment, const Mapping& mapping) {
    return mapping.range.begin - mapping.offset.value() - segment.address.value() +
           segment.offset.value();
}

/// A PT_LOAD segment is mapped so that (gabi, "Program Loading"; page-aligned or not, as p_vaddr
/// and p_offset are equal modulo the page size)
///
///     mapping begin - mapping offset  ==  bias + p_vaddr - p_offset
///
/// Segments may share a page of the file, so an executable one comes first. Files that we cannot
/// read, or whose headers do not fit, are taken for mapped as they are.
std::uint64_t find_load_bias(const ElfImage* image, const Mapping& mapping) {
    const ElfSegment* match = nullptr;
    if (image != nullptr) {
        for (const ElfSegment& segment : image->segments()) {
            if (may_be_of(segment, mapping) &&
                (match == nullptr || (segment.executable && !match->executable))) {
                match = &segment;
            }
        }
    }
    return match == nullptr ? mapping.range.begin - mapping.offset.value()
                            : bias_by(*match, mapping);
}

/// Is it one of this load of the module's file?
bool is_of_load(const Module& module, const Mapping& mapping) {
    return module.image != nullptr && file_key(mapping) == file_key(module) &&
           std::ranges::any_of(module.image->segments(), [&](const ElfSegment& segment) {
               return may_be_of(segment, mapping) && bias_by(segment, mapping) == module.load_bias;
           });
}

/// From the segments more than from the mappings, so that it is whole while the dynamic linker is
/// still at work. But the file may lie: what belongs to others ends it. Not so between its own
/// mappings: there the kernel may put the vDSO, if a program without interpreter leaves room there
/// (arm64's segments begin 64 KiB apart).
AddrRange find_range(const Module& module, const std::vector<Mapping>& mappings) {
    AddrRange range{module.executable.front().begin, module.executable.back().end};
    for (const Mapping& mapping : mappings) {
        if (is_of_load(module, mapping)) {
            range = range.joined_with(mapping.range);
        }
    }
    AddrRange limit{0, UINT64_MAX};
    AddrRange own = range;
    for (const Mapping& mapping : mappings) {
        const bool before = mapping.range.end <= range.begin;
        const bool behind = mapping.range.begin >= range.end;
        const bool named = !mapping.path.empty() && !mapping.path.starts_with("[anon:");
        if (file_key(mapping) == file_key(module)) {
            own = own.joined_with(mapping.range);
        } else if (named && before) {
            limit.begin = mapping.range.end;
            own.begin = range.begin;
        } else if (named && behind) {
            limit.end = mapping.range.begin;
            break;
        }
    }
    if (module.image == nullptr) {
        return own;
    }
    for (const ElfSegment& segment : module.image->segments()) {
        const auto loaded = AddrRange::at(module.to_runtime(segment.address), segment.memory_size);
        if (!loaded.empty()) {
            range = range.joined_with(loaded);
        }
    }
    return range.common_with(limit);
}

/// A new Module for the load that this mapping is the first executable one of.
std::shared_ptr<Module> make_module(const Mapping& mapping, const File& file, std::uint64_t bias) {
    auto module = std::make_shared<Module>();
    module->path = mapping.path;
    module->name = last_component(mapping.path);
    module->load_bias = bias;
    module->device = mapping.device;
    module->inode = mapping.inode;
    module->image = file.image;
    module->problem = file.problem;
    module->is_elf = file.is_elf;
    return module;
}

void append_range(std::vector<AddrRange>* ranges, AddrRange range) {
    if (!ranges->empty() && ranges->back().end == range.begin) {
        ranges->back().end = range.end; // one mapping, which mprotect has split
    } else {
        ranges->push_back(range);
    }
}

} // namespace

/// One look at the process, before it is compared with the last one.
struct ModuleMap::Found {
    std::vector<std::shared_ptr<Module>> modules; ///< by address
    std::vector<std::pair<AddrRange, Module*>> code;
    std::shared_ptr<Module> main;
};

/// Somebody's module, or a process's account, keeps each of them.
struct ModuleMap::OpenFiles {
    absl::flat_hash_map<FileKey, std::weak_ptr<ElfImage>> images;
    std::weak_ptr<ElfImage> vdso;
};

ModuleMap::ModuleMap(Tid pid, MemoryReader& memory, const ModuleMap* relative)
    : pid_(pid), memory_(memory),
      opened_(relative != nullptr ? relative->opened_ : std::make_shared<OpenFiles>()) {}

ModuleMap::Found ModuleMap::find_modules(const std::vector<Mapping>& mappings) {
    absl::flat_hash_map<FileKey, File> files;
    for (const auto& module : current_) {
        files.try_emplace(file_key(*module), File{module->image, module->problem, module->is_elf});
    }
    const Tid thread = living_thread(pid_);
    const ProgramFile program = ProgramFile::of(thread);
    root_ = TargetRoot::of(thread, root_); // it may have changed its root, as container runtimes do

    // A file that we have not got open as of now.
    const auto open_file = [&](const Mapping& mapping) -> File {
        if (mapping.inode == 0) {
            auto vdso = read_vdso(memory_, mapping);
            if (!vdso) {
                return {nullptr, vdso.error().message(), true};
            }
            auto same = opened_->vdso.lock();
            if (same == nullptr || !std::ranges::equal(same->bytes(), (*vdso)->bytes())) {
                opened_->vdso = same = *vdso;
            }
            return {std::move(same), "", true};
        }
        // Libraries come and go and come again. While an old image keeps a file open its inode
        // number cannot go to another file.
        std::weak_ptr<ElfImage>& opened = opened_->images[file_key(mapping)];
        if (auto old = opened.lock(); old != nullptr && !old->changed_on_disk()) {
            return {std::move(old), "", true};
        }
        auto image = open_mapped_file(thread, mapping, program);
        if (!image) {
            return {nullptr, image.error().message(), begins_as_elf(mapping, mappings, memory_)};
        }
        opened = *image;
        return {*image, "", true};
    };

    Found found;
    absl::flat_hash_map<LoadKey, Module*> loads;
    for (const Mapping& mapping : mappings) {
        if (!may_be_module(mapping)) {
            if (mapping.executable) {
                found.code.emplace_back(mapping.range, nullptr);
            }
            continue;
        }
        const FileKey key = file_key(mapping);
        auto file = files.find(key);
        if (file == files.end()) {
            file = files.emplace(key, open_file(mapping)).first;
        }
        const std::uint64_t bias = find_load_bias(file->second.image.get(), mapping);
        Module*& load = loads[LoadKey(key, bias)];
        if (load == nullptr) {
            found.modules.push_back(make_module(mapping, file->second, bias));
            load = found.modules.back().get();
            load->root = root_;
            if (found.main == nullptr && program.is_behind(mapping)) {
                found.main = found.modules.back();
            }
        }
        append_range(&load->executable, mapping.range);
        found.code.emplace_back(mapping.range, load);
    }
    return found;
}

ModuleChanges ModuleMap::publish(Found& found, const std::vector<Mapping>& mappings) {
    absl::flat_hash_map<LoadKey, std::shared_ptr<Module>> gone;
    for (const auto& module : current_) {
        gone.emplace(load_key(*module), module);
    }
    ModuleChanges changes;
    absl::flat_hash_map<const Module*, const Module*> published;
    for (auto& module : found.modules) {
        const Module* const as_found = module.get();
        const auto known = gone.find(load_key(*module));
        if (known != gone.end() && known->second->executable == module->executable) {
            if (found.main == module) {
                found.main = known->second;
            }
            published[as_found] = known->second.get();
            module = known->second; // the last owner of `as_found` may have gone
            gone.erase(known);
            continue;
        }
        module->range = find_range(*module, mappings);
        module->loaded = generation_ + 1;
        published[as_found] = as_found;
        all_.push_back(module);
        changes.added.push_back(module);
    }
    for (const auto& module : current_) { // in order of address, as hash tables are not
        if (gone.contains(load_key(*module))) {
            module->unloaded = generation_ + 1;
            changes.removed.push_back(module);
        }
    }
    if (!changes.added.empty() || !changes.removed.empty()) {
        ++generation_;
    }
    code_.clear();
    for (const auto& [range, module] : found.code) {
        code_.push_back({range, module == nullptr ? nullptr : published.at(module)});
    }
    return changes;
}

Result<ModuleChanges> ModuleMap::refresh() {
    auto mappings = read_maps(pid_);
    if (!mappings) {
        return std::move(mappings).error();
    }
    if (mappings->empty()) { // its memory goes before the process does
        return Error(fmt::format("process {} has no memory any more", pid_.value()), ESRCH);
    }
    Found found = find_modules(*mappings);
    ModuleChanges changes = publish(found, *mappings);
    current_ = std::move(found.modules);
    main_ = std::move(found.main);
    mappings_ = *std::move(mappings);
    return changes;
}

bool ModuleMap::look_for_generated_code() {
    const auto mappings = read_maps(pid_);
    if (!mappings) {
        return false;
    }
    std::vector<CodeRange> code;
    for (const CodeRange& each : code_) {
        if (each.module != nullptr) {
            code.push_back(each);
        }
    }
    const std::size_t of_modules = code.size();
    for (const Mapping& mapping : *mappings) {
        const auto is_modules = [&mapping](const CodeRange& each) {
            return each.range.overlaps(mapping.range);
        };
        const auto end = code.begin() + static_cast<std::ptrdiff_t>(of_modules);
        if (mapping.executable && std::none_of(code.begin(), end, is_modules)) {
            code.push_back({mapping.range, nullptr});
        }
    }
    std::sort(code.begin(), code.end(),
              [](const CodeRange& a, const CodeRange& b) { return a.range.begin < b.range.begin; });
    std::swap(code, code_);
    return code != code_;
}

void ModuleMap::forget_all() {
    ++generation_;
    for (const auto& module : current_) {
        module->unloaded = generation_;
    }
    current_.clear();
    main_.reset();
    mappings_.clear();
    code_.clear();
}

const ModuleMap::CodeRange* ModuleMap::code_range(CodeAddr pc) const {
    auto after = std::upper_bound(
        code_.begin(), code_.end(), pc.value(),
        [](std::uint64_t address, const CodeRange& code) { return address < code.range.begin; });
    if (after == code_.begin() || !std::prev(after)->range.contains(pc)) {
        return nullptr;
    }
    return &*std::prev(after);
}

const Module* ModuleMap::find(CodeAddr pc) const {
    const CodeRange* code = code_range(pc);
    return code == nullptr ? nullptr : code->module;
}

bool ModuleMap::is_executable(CodeAddr pc) const {
    return code_range(pc) != nullptr;
}

} // namespace memleax
