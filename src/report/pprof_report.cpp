// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <protozero/pbf_builder.hpp>

#include "frame_labels.hpp"
#include "gzip_sink.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/report/verdict_text.hpp"
#include "module_index.hpp"
#include "name_table.hpp"
#include "profile_proto.hpp"

namespace memleax {

namespace {

using namespace profile_proto;
template <class Message> using Builder = protozero::pbf_builder<Message>;

std::int64_t int64(std::uint64_t value) {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
}

/// Matches a function as pprof does: by its name up to the parameters.
std::string as_pattern(std::string_view function) {
    constexpr std::array<std::string_view, 3> kNoParameters{"(anonymous namespace)", "operator()",
                                                            "(*"};
    std::size_t end = 0;
    while (end < function.size()) {
        const auto* skipped =
            std::find_if(kNoParameters.begin(), kNoParameters.end(), [&](std::string_view each) {
                return function.substr(end).starts_with(each);
            });
        if (skipped == kNoParameters.end() && function[end] == '(') {
            break;
        }
        end += skipped == kNoParameters.end() ? 1 : skipped->size();
    }
    std::string pattern;
    for (const char c : function.substr(0, end)) {
        if (std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos) {
            pattern += '\\';
        }
        pattern += c;
    }
    return pattern;
}

constexpr std::array<std::pair<const char*, const char*>, 4> kHeapTypes{{{"alloc_objects", "count"},
                                                                         {"alloc_space", "bytes"},
                                                                         {"inuse_objects", "count"},
                                                                         {"inuse_space", "bytes"}}};

/// The profile in one pass over the call stacks. A message's repeated fields may come in any order
/// and mixed with others, so each string, function and location is written when it is first met;
/// kept are their numbers, which are few.
class PprofWriter {
  public:
    PprofWriter(const Report& report, ReportSink& sink)
        : report_(report), modules_(report.modules), symbols_(report.modules.size()), gzip_(sink) {
        string(""); // number 0, by definition
    }

    void write() {
        write_header();
        for (const CallStackReport& stack : report_.callstacks) {
            write_stack(stack);
        }
        if (report_.page_faults) {
            for (const FaultStackReport& stack : report_.page_faults->stacks) {
                write_faults(stack);
            }
        }
        write_dropped();
        // What is known of a module's functions is known only now.
        for (std::size_t i = 0; i < report_.modules.size(); ++i) {
            write_mapping(i);
        }
        flush();
        gzip_.finish();
    }

  private:
    /// What has been found of the frames in a module.
    struct Symbols {
        bool any = false;
        bool functions = true; ///< of all of them
        bool filenames = true;
        bool lines = true;
    };

    /// A label of a sample: a text, or else a number.
    struct Tag {
        std::int64_t key; ///< a string's number
        std::int64_t text = 0;
        std::int64_t number = 0;
    };

    void write_header();
    void write_value_type(Profile field, const char* type, const char* unit);
    void write_stack(const CallStackReport& stack);
    void write_faults(const FaultStackReport& stack);
    template <typename Stack>
    void write_sample(const Stack& stack, const std::vector<std::int64_t>& values,
                      std::vector<Tag> tags);
    void note_dropped(const CallStackReport& stack);
    void write_dropped();
    void write_mapping(std::size_t index);
    std::uint64_t location(const ResolvedFrame& frame);
    std::uint64_t label_location(const std::string& label);
    std::uint64_t function(const std::string& name, const std::string& file);
    std::int64_t string(std::string_view text);
    void flush();

    const Report& report_;
    ModuleIndex modules_;
    std::vector<Symbols> symbols_; ///< of each module
    GzipSink gzip_;
    std::string piece_; ///< whole fields of the Profile, not yet written
    NameTable strings_;
    absl::flat_hash_map<ResolvedFrame::element_type*, std::uint64_t> locations_;
    absl::flat_hash_map<std::string, std::uint64_t> label_locations_;
    absl::flat_hash_map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> functions_;
    std::uint64_t last_location_ = 0;
    std::size_t value_count_ = 0;   ///< of each sample
    std::set<std::string> dropped_; ///< names of functions, as regular expressions
};

void PprofWriter::flush() {
    gzip_.write(piece_);
    piece_.clear();
}

std::int64_t PprofWriter::string(std::string_view text) {
    const auto [number, is_new] = strings_.number(valid_utf8(text));
    if (is_new) {
        Builder<Profile>(piece_).add_string(Profile::string_table, strings_.name(number));
    }
    return number;
}

void PprofWriter::write_value_type(Profile field, const char* type, const char* unit) {
    const std::int64_t type_string = string(type);
    const std::int64_t unit_string = string(unit);
    Builder<Profile> profile(piece_);
    Builder<ValueType> message(profile, field);
    message.add_int64(ValueType::type, type_string);
    message.add_int64(ValueType::unit, unit_string);
}

/// Sample types in the order of Go's heap profiles, so that every tool that knows those opens ours
/// well.
void PprofWriter::write_header() {
    for (const auto& [type, unit] : kHeapTypes) {
        write_value_type(Profile::sample_type, type, unit);
    }
    value_count_ = kHeapTypes.size();
    if (report_.page_faults) {
        write_value_type(Profile::sample_type, "faults", "count");
        write_value_type(Profile::sample_type, "major_faults", "count");
        value_count_ += 2;
        if (report_.page_faults->resident) { // what is still there
            write_value_type(Profile::sample_type, "resident_space", "bytes");
            ++value_count_;
        }
    }
    write_value_type(Profile::period_type, "space", "bytes");
    const std::int64_t shown_first =
        string(report_.has_page_faults_only() ? "faults" : "inuse_space");
    const std::int64_t comment = string(fmt::format("memleax {}: process {}, {}", report_.version,
                                                    report_.target.pid, report_.target.exe));
    Builder<Profile> profile(piece_);
    profile.add_int64(Profile::default_sample_type, shown_first);
    profile.add_int64(Profile::period, 1); // no sampling: every allocation is counted
    profile.add_int64(Profile::comment, comment);
    profile.add_int64(Profile::time_nanos, report_.session.started_unix_ns);
    profile.add_int64(Profile::duration_nanos,
                      std::llround(report_.session.duration_s * kNsPerSecond));
}

void PprofWriter::write_stack(const CallStackReport& stack) {
    note_dropped(stack);
    std::vector<std::int64_t> values{int64(stack.alloc.blocks), int64(stack.alloc.bytes),
                                     int64(stack.live.blocks), int64(stack.live.bytes)};
    values.resize(value_count_);
    std::vector<Tag> tags;
    if (stack.judgement) { // as in pprof -tagfocus=leaking
        tags.push_back({string("verdict"), string(describe(stack.judgement->verdict))});
    }
    if (report_.mapped) { // as in pprof -tagroot=kind
        tags.push_back({string("kind"), string(describe(stack.kind))});
    }
    write_sample(stack, values, std::move(tags));
}

void PprofWriter::write_faults(const FaultStackReport& stack) {
    std::vector<std::int64_t> values(kHeapTypes.size());
    values.push_back(int64(stack.minor + stack.major));
    values.push_back(int64(stack.major));
    if (stack.still_bytes) {
        values.push_back(int64(*stack.still_bytes));
    }
    values.resize(value_count_);
    write_sample(stack, values, {});
}

template <typename Stack>
void PprofWriter::write_sample(const Stack& stack, const std::vector<std::int64_t>& values,
                               std::vector<Tag> tags) {
    std::vector<std::uint64_t> ids; // innermost first
    for (const ResolvedFrame& frame : stack.frames.machine_frames()) {
        ids.push_back(location(frame));
    }
    if (const std::string label = missing_frames_label(stack.frames, stack.end); !label.empty()) {
        ids.push_back(label_location(label));
    }
    const std::string process = process_label(report_, stack.process);
    if (!process.empty()) { // as in pprof -tagroot=process
        tags.push_back({string("process"), string(process)});
        tags.push_back({string("pid"), 0, report_.processes[stack.process].pid});
    }
    {
        Builder<Profile> profile(piece_);
        Builder<Sample> sample(profile, Profile::sample);
        sample.add_packed_uint64(Sample::location_id, ids.begin(), ids.end());
        sample.add_packed_int64(Sample::value, values.begin(), values.end());
        for (const Tag& each : tags) {
            Builder<Label> tag(sample, Sample::label);
            tag.add_int64(Label::key, each.key);
            if (each.text != 0) {
                tag.add_int64(Label::str, each.text);
            } else {
                tag.add_int64(Label::num, each.number);
            }
        }
    }
    constexpr std::size_t kPiece = 65536;
    if (piece_.size() >= kPiece) {
        flush();
    }
}

/// Allocators and wrappers, past which a call stack is named: pprof leaves them out, with what they
/// have called, unless it is told not to.
void PprofWriter::note_dropped(const CallStackReport& stack) {
    const std::size_t where = where_of(stack);
    std::size_t index = 0;
    for (const SourceFrame& frame : stack.frames) {
        if (index++ == where) {
            return;
        }
        if (!frame.function.empty() && (is_allocator(frame) || is_own_code(frame))) {
            dropped_.insert(as_pattern(function_label(frame)));
        }
    }
}

void PprofWriter::write_dropped() {
    if (dropped_.empty()) {
        return;
    }
    const std::int64_t pattern = string(fmt::format("{}", fmt::join(dropped_, "|")));
    Builder<Profile>(piece_).add_int64(Profile::drop_frames, pattern);
}

/// profile.proto wants an address within the mapping, for a caller within its call instruction: the
/// return address may be behind the mapping's end, or be another function's. So it is the address
/// that we look symbols up with.
std::uint64_t PprofWriter::location(const ResolvedFrame& frame) {
    const auto [entry, is_new] = locations_.try_emplace(frame.get(), last_location_ + 1);
    if (!is_new) {
        return entry->second;
    }
    const std::uint64_t id = ++last_location_;
    std::vector<std::pair<std::uint64_t, unsigned>> lines; // innermost first, as pprof wants them
    for (const SourceFrame& call : *frame) {
        // A frame without a name gets its module's: speedscope leaves frames without lines out.
        lines.emplace_back(function(function_label(call), call.file), call.line);
    }
    const SourceFrame& outermost = frame->back();
    const auto module = modules_.find(outermost);
    if (module) {
        Symbols& symbols = symbols_[*module];
        symbols.any = true;
        for (const SourceFrame& call : *frame) {
            symbols.functions &= !call.function.empty();
            symbols.filenames &= !call.file.empty();
            symbols.lines &= call.line != 0;
        }
    }
    Builder<Profile> profile(piece_);
    Builder<Location> message(profile, Profile::location);
    message.add_uint64(Location::id, id);
    if (module) {
        message.add_uint64(Location::mapping_id, *module + 1);
    }
    message.add_uint64(Location::address, outermost.address().lookup_pc().value());
    for (const auto& [function_id, number] : lines) {
        Builder<Line> line(message, Location::line);
        line.add_uint64(Line::function_id, function_id);
        line.add_int64(Line::line, number);
    }
    return id;
}

std::uint64_t PprofWriter::label_location(const std::string& label) {
    const auto [entry, is_new] = label_locations_.try_emplace(label, last_location_ + 1);
    if (is_new) {
        ++last_location_;
        const std::uint64_t function_id = function(label, "");
        Builder<Profile> profile(piece_);
        Builder<Location> message(profile, Profile::location);
        message.add_uint64(Location::id, entry->second);
        Builder<Line> line(message, Location::line);
        line.add_uint64(Line::function_id, function_id);
    }
    return entry->second;
}

/// Without system_name: the mangled name is not in the report, and pprof, which demangles what has
/// equal names, shortens "f(int)" to "f".
std::uint64_t PprofWriter::function(const std::string& name, const std::string& file) {
    const std::pair key{string(name), string(file)}; // in this order
    const auto [entry, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
        Builder<Profile> profile(piece_);
        Builder<Function> message(profile, Profile::function);
        message.add_uint64(Function::id, entry->second);
        message.add_int64(Function::name, key.first);
        message.add_int64(Function::filename, key.second);
    }
    return entry->second;
}

/// pprof looks for symbols itself, by the build-id, where a flag says that they are not all here.
void PprofWriter::write_mapping(std::size_t index) {
    const Report::Module& module = report_.modules[index];
    const Symbols& symbols = symbols_[index];
    const std::int64_t filename = string(module.path);
    const std::int64_t build_id = string(module.build_id);
    Builder<Profile> profile(piece_);
    Builder<Mapping> message(profile, Profile::mapping);
    message.add_uint64(Mapping::id, index + 1);
    message.add_uint64(Mapping::memory_start, module.range.begin);
    message.add_uint64(Mapping::memory_limit, module.range.end);
    message.add_uint64(Mapping::file_offset, module.file_offset);
    message.add_int64(Mapping::filename, filename);
    message.add_int64(Mapping::build_id, build_id);
    message.add_bool(Mapping::has_functions, symbols.any && symbols.functions);
    message.add_bool(Mapping::has_filenames, symbols.any && symbols.filenames);
    message.add_bool(Mapping::has_line_numbers, symbols.any && symbols.lines);
    // Whatever tells us lines tells us of inlined calls too.
    message.add_bool(Mapping::has_inline_frames, symbols.any && symbols.lines);
}

} // namespace

void write_pprof(const Report& report, ReportSink& sink) {
    PprofWriter(report, sink).write();
}

} // namespace memleax
