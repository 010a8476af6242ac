// SPDX-License-Identifier: GPL-3.0-or-later
#include "allocator_options.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "option_values.hpp"

namespace memleax {

namespace {

/// Those that every CPU that we know passes in registers.
constexpr int kMaxArgument = 6;

/// One thing that may be said of a function: "size=2".
struct Field {
    const char* name;
    int* argument; ///< where it goes to, from 0
    bool required;
};

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == separator) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

/// A name as in a symbol table: anything without blanks and what separates here.
std::string parse_symbol(const std::string& where, const std::string& form,
                         const std::string& text) {
    if (text.empty() || text.find_first_of(" \t=,:") != std::string::npos) {
        throw UsageError(
            fmt::format("{}: '{}' is not the name of a function: {}", where, text, form));
    }
    return text;
}

int parse_argument(const std::string& where, const std::string& text) {
    int number = 0;
    if (parse_number(text, number) != std::errc() || number < 1 || number > kMaxArgument) {
        throw UsageError(fmt::format("{}: '{}' is not the number of an argument, 1 (the first) to "
                                     "{}",
                                     where, text, kMaxArgument));
    }
    return number - 1;
}

/// "size=2,count=1"; what is required has to be there, and everything once at most.
void parse_fields(const std::string& where, const std::string& form, const std::string& text,
                  const std::vector<Field>& fields, bool* is_int = nullptr) {
    std::set<std::string> seen;
    for (const std::string& part : split(text, ',')) {
        const std::string name = part.substr(0, part.find('='));
        if (!seen.insert(name).second) {
            throw UsageError(fmt::format("{}: {} is there twice", where, name));
        }
        if (is_int != nullptr && part == "int") {
            *is_int = true;
            continue;
        }
        const auto field = std::find_if(fields.begin(), fields.end(),
                                        [&](const Field& f) { return f.name == name; });
        if (field == fields.end() || name.size() == part.size()) {
            throw UsageError(fmt::format("{}: '{}' is not understood: {}", where, part, form));
        }
        *field->argument =
            parse_argument(fmt::format("{}: {}", where, name), part.substr(name.size() + 1));
    }
    for (const Field& field : fields) {
        if (field.required && !seen.contains(field.name)) {
            throw UsageError(fmt::format("{}: {}= is missing: {}", where, field.name, form));
        }
    }
}

/// Where a function comes from, for messages. The lines of a file are one.
std::string origin_of(const std::string& option, const std::string& text) {
    return option.starts_with("--") ? option + " " + text : option.substr(0, option.rfind(':'));
}

/// NAME:FIELDS
void parse_function(AllocatorFunction& function, const std::string& option, const std::string& text,
                    const std::string& form, const std::vector<Field>& fields) {
    const std::string where = option + " " + text;
    const auto colon = text.find(':');
    function.name = parse_symbol(where, form, text.substr(0, colon));
    function.origin = origin_of(option, text);
    if (colon == std::string::npos) {
        throw UsageError(fmt::format("{}: its arguments are missing: {}", where, form));
    }
    parse_fields(where, form, text.substr(colon + 1), fields);
}

/// Beside the program (an installed one, or in its build folder), else where it was to be
/// installed.
std::vector<std::filesystem::path> allocator_folders() {
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    constexpr const char* kFolder = "share/memleax/allocators";
    return {program / ".." / kFolder, program / kFolder, MEMLEAX_ALLOCATORS};
}

std::string allocator_path(const std::string& option, const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return name;
    }
    std::set<std::string> known;
    for (const auto& folder : allocator_folders()) {
        std::error_code error;
        for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end;
             i.increment(error)) {
            if (i->path().filename() == name) {
                return i->path().string();
            }
            known.insert(i->path().filename().string());
        }
    }
    throw UsageError(fmt::format(
        "{}: there is no '{}' among {} (a file of your own has a '/' in "
        "its name: ./{})",
        option, name,
        known.empty() ? "the installed files" : fmt::format("{}", fmt::join(known, ", ")), name));
}

} // namespace

void add_alloc(AllocatorApi& api, const std::string& option, const std::string& text) {
    AllocatorFunction function{.call = AllocatorCall::allocate};
    parse_function(function, option, text, "NAME:size=ARG[,count=ARG][,out=ARG]",
                   {{"size", &function.size_argument, true},
                    {"count", &function.count_argument, false},
                    {"out", &function.out_argument, false}});
    api.add(std::move(function));
}

void add_free(AllocatorApi& api, const std::string& option, const std::string& text) {
    AllocatorFunction function{.call = AllocatorCall::free};
    parse_function(
        function, option, text, "NAME:ptr=ARG[,next=ARG]",
        {{"ptr", &function.pointer_argument, true}, {"next", &function.next_argument, false}});
    api.add(std::move(function));
}

void set_tracked(AllocatorApi& api, const std::string& option, const std::string& text) {
    static const Names<bool TrackedMemory::*> kinds{{"heap", &TrackedMemory::heap},
                                                    {"mmap", &TrackedMemory::mmap},
                                                    {"brk", &TrackedMemory::brk},
                                                    {"shm", &TrackedMemory::shm},
                                                    {"faults", &TrackedMemory::faults}};
    TrackedMemory tracked{.heap = false};
    for (const std::string& name : split(text, ',')) {
        tracked.*parse_name(option, name, kinds) = true;
    }
    api.track(tracked);
}

void add_realloc(AllocatorApi& api, const std::string& option, const std::string& text) {
    AllocatorFunction function{.call = AllocatorCall::realloc};
    parse_function(function, option, text, "NAME:ptr=ARG,size=ARG[,count=ARG]",
                   {{"ptr", &function.pointer_argument, true},
                    {"size", &function.size_argument, true},
                    {"count", &function.count_argument, false}});
    api.add(std::move(function));
}

void add_resource(AllocatorApi& api, const std::string& option, const std::string& text) {
    static const std::string form = "ACQUIRE,RELEASE[:int][,out=ARG][,handle=ARG]";
    const std::string where = option + " " + text;
    const auto colon = text.find(':');
    const std::vector<std::string> names = split(text.substr(0, colon), ',');
    if (names.size() != 2 || names[0] == names[1]) {
        throw UsageError(fmt::format("{}: two functions are wanted: {}", where, form));
    }
    AllocatorFunction acquire{.name = parse_symbol(where, form, names[0]),
                              .call = AllocatorCall::allocate,
                              .origin = origin_of(option, text)};
    AllocatorFunction release{.name = parse_symbol(where, form, names[1]),
                              .call = AllocatorCall::free,
                              .pointer_argument = 0,
                              .origin = origin_of(option, text)};
    if (colon != std::string::npos) {
        parse_fields(
            where, form, text.substr(colon + 1),
            {{"out", &acquire.out_argument, false}, {"handle", &release.pointer_argument, false}},
            &acquire.is_descriptor);
    }
    release.is_descriptor = acquire.is_descriptor;
    acquire.family = release.family = api.resource_family(acquire.name, release.name);
    api.add(std::move(acquire));
    api.add(std::move(release));
}

void add_probe(AllocatorApi& api, const std::string& option, const std::string& text) {
    if (!api.add_probe(text)) {
        throw UsageError(fmt::format(
            "{}: '{}' is no probe: PROVIDER:NAME, as in 'libc:memory_*', or the name of a function",
            option, text));
    }
}

void add_allocator_prefix(AllocatorApi& api, const std::string& option, const std::string& text) {
    api.add_prefix(parse_symbol(option, "the prefix of PREFIXmalloc", text));
}

void add_allocator_file(AllocatorApi& api, const std::string& option, const std::string& text) {
    static const Names<decltype(&add_alloc)> kinds{{"alloc", add_alloc},
                                                   {"free", add_free},
                                                   {"realloc", add_realloc},
                                                   {"resource", add_resource},
                                                   {"prefix", add_allocator_prefix}};
    const std::string path = allocator_path(option, text);
    std::ifstream file(path);
    std::error_code ignored;
    if (!file || std::filesystem::is_directory(path, ignored)) {
        throw UsageError(fmt::format("{}: {} cannot be read", option, path));
    }
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        line = line.substr(0, line.find('#'));
        const auto begin = line.find_first_not_of(" \t\r");
        if (begin == std::string::npos) {
            continue;
        }
        line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
        const auto blank = line.find_first_of(" \t");
        const std::string where = fmt::format("{}:{}", path, number);
        const auto add = parse_name(where, line.substr(0, blank), kinds);
        const auto value = line.find_first_not_of(" \t", blank);
        add(api, where, value == std::string::npos ? "" : line.substr(value));
    }
}

} // namespace memleax
