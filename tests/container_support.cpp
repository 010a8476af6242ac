// SPDX-License-Identifier: GPL-3.0-or-later
#include "container_support.hpp"

#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/proc/pid_namespace.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {

namespace {

/// For sh -c: ROOT, PROGRAM and HOW come as $0, $1, $2. The debug file is for the container alone.
constexpr const char* kFill = R"(set -e
if [ "$2" != chroot ]; then mount -t tmpfs none "$0"; fi
cd "$0"
mkdir -p app/.debug proc tmp
for file in $(ldd "$1" | grep -o '/[^ ]*'); do
    mkdir -p ".${file%/*}"
    cp "$file" ".$file"
done
objcopy --only-keep-debug "$1" app/.debug/inside.debug
objcopy --strip-all --add-gnu-debuglink=app/.debug/inside.debug "$1" app/inside
if [ "$3" = by-build-id ]; then
    id=$(readelf -n app/inside | sed -n 's/.*Build ID: //p')
    rest=${id#??}
    mkdir -p "usr/lib/debug/.build-id/${id%"$rest"}"
    mv app/.debug/inside.debug "usr/lib/debug/.build-id/${id%"$rest"}/$rest.debug"
fi
if [ "$2" = chroot ]; then exec chroot --userspec=65534:65534 "$0" /app/inside; fi
mount -t proc proc proc
exec "$2" "$0" /app/inside
)";

CommandLine command_of(const std::string& root, const std::string& program,
                       const Container& container) {
    std::vector<std::string> words;
    if (!container.namespaces.empty()) {
        words = {"/usr/bin/unshare"};
        words.insert(words.end(), container.namespaces.begin(), container.namespaces.end());
    }
    const bool chroot = container.namespaces.empty();
    const std::vector<std::string> fill{
        "/bin/sh",
        "-c",
        kFill,
        root,
        fixture_path(program),
        chroot ? "chroot" : fixture_path("enter_root"),
        container.debug == Container::Debug::by_build_id ? "by-build-id" : "beside"};
    words.insert(words.end(), fill.begin(), fill.end());
    return container.unprivileged ? unprivileged({words}) : CommandLine{words};
}

pid_t only_child(pid_t pid) {
    const auto children = list_children(Tid(pid), Tid(pid));
    if (children.size() != 1) {
        throw std::runtime_error(fmt::format("process {} has {} children", pid, children.size()));
    }
    return children[0].value();
}

/// Others may use it as a place to mount on.
std::string opened(const memleax::test::TemporaryFolder& folder) {
    const std::string path = folder.file("root");
    if (mkdir(path.c_str(), 0755) != 0) {
        throw std::runtime_error("no folder for a root");
    }
    return path;
}

} // namespace

std::string why_not(const Container& container) {
    if (container.namespaces.empty()) {
        return geteuid() == 0 ? "" : "chroot(2) needs root";
    }
    CommandLine command{{"/usr/bin/unshare"}};
    command.words.insert(command.words.end(), container.namespaces.begin(),
                         container.namespaces.end());
    command.words.insert(command.words.end(),
                         {"/bin/sh", "-c", "mount -t tmpfs none /mnt && mount -t proc proc /proc"});
    if (container.unprivileged) {
        command = unprivileged(std::move(command));
    }
    ChildProcess process(command.words);
    return process.wait_for_end() == 0 ? "" : "no such namespaces here: " + process.state();
}

ContainedFixture::ContainedFixture(const std::string& name, const Container& container)
    : fixture_(command_of(opened(root_), name, container)) {
    if (container.namespaces.empty()) {
        init_ = fixture_.pid();
        pid_ = init_;
    } else { // unshare, enter_root, the fixture
        init_ = only_child(fixture_.pid());
        pid_ = only_child(init_);
    }
}

int ContainedFixture::inner_pid() const {
    return own_number_of(Tid(pid_));
}

} // namespace memleax::testing
