// SPDX-License-Identifier: GPL-3.0-or-later
// The client library is loaded when it is needed: it brings libcurl and what that brings along, and
// most sessions never ask a server.
#include "memleax/symbols/debuginfod.hpp"

#include <algorithm>
#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/printable.hpp"

namespace memleax {

namespace {

constexpr std::int64_t kShowEveryNs = kNsPerSecond / 5;
// Before a server has answered the client tells how often it has looked, not a number of bytes.
constexpr long kSurelyBytes = 64L * 1024;

/// Seconds without a byte. The client's own limit is 90 (debuginfod-find(1)), which is long for
/// somebody who waits for a report.
std::int64_t patience_ns() {
    constexpr std::int64_t kDefault = 20;
    const char* text = std::getenv("DEBUGINFOD_TIMEOUT");
    const long given = text != nullptr ? std::atol(text) : 0;
    return (given > 0 ? given : kDefault) * kNsPerSecond;
}

void write_stderr(const std::string& text) {
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, text.data(), text.size());
}

std::string size_text(long bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

} // namespace

/// <elfutils/debuginfod.h>, whose package is not needed to build us. The client stays for the
/// session, as it keeps connections.
struct Debuginfod::Library {
    void* handle = nullptr;
    void* client = nullptr;
    void* (*begin)() = nullptr;
    void (*end)(void*) = nullptr;
    int (*find_debuginfo)(void*, const unsigned char*, int, char**) = nullptr;
    void (*set_progressfn)(void*, int (*)(void*, long, long)) = nullptr;
    void (*set_user_data)(void*, void*) = nullptr;
    void* (*get_user_data)(void*) = nullptr;

    template <class Function> bool find(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(dlsym(handle, name));
        return function != nullptr;
    }
    Library() = default;
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    ~Library() {
        if (client != nullptr) {
            end(client);
        }
        // Not unloaded: libcurl's libraries do not like that.
    }
};

namespace {

#ifdef MEMLEAX_STATIC
constexpr const char* kCannotLoad =
    "DEBUGINFOD_URLS is set, but this memleax is linked statically, "
    "and cannot load libdebuginfod.so.1: nothing is downloaded";
#else
constexpr const char* kCannotLoad =
    "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is not installed";
#endif

/// The callback gets the client alone.
void* (*user_data_of)(void*) = nullptr;

} // namespace

Debuginfod::~Debuginfod() = default;

std::shared_ptr<Debuginfod> Debuginfod::from_environment() {
    const char* urls = std::getenv("DEBUGINFOD_URLS");
    if (urls == nullptr || *urls == '\0') {
        return nullptr;
    }
    return std::shared_ptr<Debuginfod>(new Debuginfod);
}

bool Debuginfod::load() {
    if (library_ != nullptr) {
        return true;
    }
    auto library = std::make_unique<Library>();
    library->handle = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library->handle == nullptr || !library->find(library->begin, "debuginfod_begin") ||
        !library->find(library->end, "debuginfod_end") ||
        !library->find(library->find_debuginfo, "debuginfod_find_debuginfo") ||
        !library->find(library->set_progressfn, "debuginfod_set_progressfn") ||
        !library->find(library->set_user_data, "debuginfod_set_user_data") ||
        !library->find(library->get_user_data, "debuginfod_get_user_data")) {
        log_warning("{}", kCannotLoad);
        return false;
    }
    library->client = library->begin();
    if (library->client == nullptr) {
        log_warning("debuginfod's client cannot begin");
        return false;
    }
    user_data_of = library->get_user_data;
    library->set_user_data(library->client, this);
    library->set_progressfn(library->client, on_progress);
    library_ = std::move(library);
    return true;
}

std::optional<std::string> Debuginfod::fetch(const std::string& build_id,
                                             const std::string& module) {
    if (useless_ || (give_up_ && give_up_())) {
        return std::nullopt;
    }
    if (!load()) {
        useless_ = true;
        return std::nullopt;
    }
    module_ = module;
    have_ = 0;
    shown_ = false;
    last_bytes_ = monotonic_now();
    last_shown_ = last_bytes_;
    char* path = nullptr;
    // A length of 0: the build-id is in hex.
    const int fd = library_->find_debuginfo(
        library_->client, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &path);
    clear_line();
    if (fd < 0) {
        log_debug("debuginfod: nothing for {} ({})", module, build_id);
        return std::nullopt;
    }
    close(fd);
    std::optional<std::string> result;
    if (path != nullptr) {
        result = path;
        std::free(path); // NOLINT: the client's malloc
    }
    if (have_ > 0) {
        log_info("debuginfod: {} of debug information for {}", size_text(have_), module);
    }
    return result;
}

int Debuginfod::on_progress(void* client, long have, long all) {
    auto* self = static_cast<Debuginfod*>(user_data_of(client));
    return self->should_end(have, all) ? 1 : 0;
}

bool Debuginfod::should_end(long have, long all) {
    const MonotonicNs now = monotonic_now();
    if ((all > 0 || have >= kSurelyBytes) && have > have_) {
        have_ = have;
        last_bytes_ = now;
    }
    if (give_up_ && give_up_()) {
        clear_line();
        log_warning("debuginfod: given up; what is not here already stays without debug "
                    "information");
        useless_ = true;
    } else if (now.value() - last_bytes_.value() > patience_ns()) {
        clear_line();
        log_warning("debuginfod: nothing came for {} s: nobody is asked again "
                    "(DEBUGINFOD_TIMEOUT sets another time)",
                    patience_ns() / kNsPerSecond);
        useless_ = true;
    } else if (now.value() - last_shown_.value() > kShowEveryNs) {
        last_shown_ = now;
        show(have_, all);
    }
    return useless_;
}

/// On a terminal only: elsewhere a line at the end of each download has to do.
void Debuginfod::show(long have, long all) {
    if (isatty(STDERR_FILENO) != 1 || !log_enabled(LogLevel::info)) {
        return;
    }
    const std::string amount =
        have == 0 ? "waiting for an answer"
                  : size_text(have) + (all > 0 ? " of " + size_text(all) : std::string());
    write_stderr(fmt::format("\r\x1b[Kdebuginfod: {}: {} (Ctrl-C: go on without)",
                             printable(module_).substr(0, 40), amount));
    shown_ = true;
}

void Debuginfod::clear_line() {
    if (shown_) {
        write_stderr("\r\x1b[K");
        shown_ = false;
    }
}

} // namespace memleax
