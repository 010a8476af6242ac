// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/folded_name.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "function_name.hpp"
#include "operator_name.hpp"

namespace memleax {

namespace {

/// Longer lists are folded.
constexpr std::size_t kMaxTemplateArguments = 24;
constexpr std::size_t kMaxParameters = 40;
/// A name comes from an untrusted file, and may nest as deep as it is long.
constexpr unsigned kMaxDepth = 64;

/// What a template of the standard library has where nothing else is said.
constexpr std::array<std::string_view, 6> kDefaults{"std::allocator<", "std::char_traits<",
                                                    "std::less<",      "std::hash<",
                                                    "std::equal_to<",  "std::default_delete<"};

struct ShortName {
    std::string_view whole; ///< with its default arguments left out
    std::string_view known;
};
constexpr std::array<ShortName, 9> kShortNames{
    {{"std::basic_string<char>", "std::string"},
     {"std::basic_string<wchar_t>", "std::wstring"},
     {"std::basic_string_view<char>", "std::string_view"},
     {"std::basic_ostream<char>", "std::ostream"},
     {"std::basic_istream<char>", "std::istream"},
     {"std::basic_stringbuf<char>", "std::stringbuf"},
     {"std::basic_stringstream<char>", "std::stringstream"},
     {"std::basic_ostringstream<char>", "std::ostringstream"},
     {"std::basic_filebuf<char>", "std::filebuf"}}};

/// Namespaces that only tell versions of one library apart.
constexpr std::array<std::string_view, 2> kVersions{"__cxx11::", "__1::"};

char closing(char open) {
    return open == '<' ? '>' : open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : '\0';
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += (text.empty() ? "" : ", ") + part;
    }
    return text;
}

class Folder {
  public:
    explicit Folder(std::string_view name) : name_(name) {}
    std::string fold() { return joined(list('\0')); }

  private:
    /// From `at_` to `end`, or the end of all, in the parts between commas.
    std::vector<std::string> list(char end);
    void bracket(std::string& text);
    [[nodiscard]] bool begins(std::string_view word) const {
        return name_.substr(at_).starts_with(word);
    }

    std::string_view name_;
    std::size_t at_ = 0;
    unsigned depth_ = 0;
};

std::vector<std::string> Folder::list(char end) {
    std::vector<std::string> parts(1);
    while (at_ < name_.size() && (end == '\0' || name_[at_] != end)) {
        std::string& text = parts.back();
        const char c = name_[at_];
        const bool at_word = text.empty() || !is_word(text.back());
        const auto* version = std::find_if(kVersions.begin(), kVersions.end(),
                                           [this](std::string_view v) { return begins(v); });
        if (at_word && begins(kOperator)) {
            const std::size_t after = after_operator(name_, at_);
            text.append(name_.substr(at_, after - at_));
            at_ = after;
        } else if (at_word && version != kVersions.end() && text.ends_with("std::")) {
            at_ += version->size();
        } else if (begins("->")) {
            text += "->";
            at_ += 2;
        } else if (c == ',' && end != '\0') {
            parts.emplace_back();
            ++at_;
        } else if (c == ' ' && (text.empty() || text.back() == ' ')) {
            ++at_;
        } else if (closing(c) != '\0' && depth_ < kMaxDepth) {
            bracket(text);
        } else {
            text += c;
            ++at_;
        }
    }
    for (std::string& part : parts) { // "> >"
        part.erase(part.find_last_not_of(' ') + 1);
    }
    return parts;
}

void Folder::bracket(std::string& text) {
    const char open = name_[at_++];
    // "<T as Trait>::f" of Rust is no list of arguments: it says whose f.
    const bool has_owner = !text.empty() && text.back() != ' ' && text.back() != ',';
    ++depth_;
    std::vector<std::string> parts = list(closing(open));
    --depth_;
    const bool is_closed = at_ < name_.size();
    at_ += is_closed ? 1 : 0;
    if (open == '<' && has_owner && parts.size() > 1) {
        parts.erase(std::remove_if(std::next(parts.begin()), parts.end(),
                                   [](const std::string& part) {
                                       return std::any_of(kDefaults.begin(), kDefaults.end(),
                                                          [&part](std::string_view each) {
                                                              return part.starts_with(each);
                                                          });
                                   }),
                    parts.end());
    }
    std::string inner = joined(parts);
    if ((open == '<' && has_owner && inner.size() > kMaxTemplateArguments) ||
        (open == '(' && inner.size() > kMaxParameters)) {
        inner = "...";
    }
    text += open + inner;
    if (is_closed) {
        text += closing(open);
    }
    for (const ShortName& each : kShortNames) {
        if (text.ends_with(each.whole)) {
            text.replace(text.size() - each.whole.size(), each.whole.size(), each.known);
        }
    }
}

} // namespace

std::string folded_name(std::string_view function) {
    const std::string_view name = bare_name(function);
    const auto after = static_cast<std::size_t>(name.data() - function.data()) + name.size();
    std::string_view parameters = function.substr(after);
    parameters = parameters.substr(0, parameters.find(" [clone "));
    const std::string whole = std::string(name).append(parameters);
    return Folder(whole).fold();
}

} // namespace memleax
