// SPDX-License-Identifier: GPL-3.0-or-later
// The target for --leak-check. Commands on stdin, one a line, an answer on stdout to each:
//   heap BYTES         keep so many bytes in blocks of 1,000
//   list|shuffled|map|hash BLOCKS
//                      keep so many blocks in such a container; the shuffled list's links go all
//                      over the heap
//   fork               "fork SECONDS": what one fork alone takes from whoever asks for it; its
//                      child ends at once
//   busy               a thread runs from now on, so that there is one to stop
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Node {
    Node* next = nullptr;
    std::uint64_t payload = 0;
};

std::vector<char*> g_blocks;
Node* g_list = nullptr;
std::map<std::uint64_t, std::uint64_t> g_map;
std::unordered_map<std::uint64_t, std::uint64_t> g_hash;
volatile std::uint64_t g_work = 0;

void keep_bytes(std::uint64_t bytes) {
    constexpr std::uint64_t kBlock = 1000;
    g_blocks.reserve(bytes / kBlock);
    for (std::uint64_t kept = 0; kept < bytes; kept += kBlock) {
        char* block = static_cast<char*>(std::malloc(kBlock));
        std::fill(block, block + kBlock, 'x');
        g_blocks.push_back(block);
    }
}

void keep_list(std::uint64_t blocks, bool shuffled) {
    std::vector<Node*> nodes(blocks);
    for (Node*& node : nodes) {
        node = new Node;
    }
    if (shuffled) {
        std::shuffle(nodes.begin(), nodes.end(), std::minstd_rand(1));
    }
    for (Node* node : nodes) {
        node->next = g_list;
        g_list = node;
    }
}

/// As memleax would have to: the kernel's call alone, without libc's handlers. Once, as it does: a
/// fork that follows another finds all that the kernel knows of each page in the CPU's caches.
double seconds_to_fork() {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const long child = syscall(SYS_clone, CLONE_FILES | CLONE_FS, nullptr, nullptr, nullptr, 0);
    if (child == 0) {
        syscall(SYS_exit_group, 0);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    waitpid(static_cast<pid_t>(child), nullptr, __WALL);
    return seconds;
}

} // namespace

int main() {
    std::cout << "ready" << std::endl;
    std::string what;
    std::uint64_t count = 0;
    while (std::cin >> what) {
        if (what == "fork") {
            std::cout << "fork " << seconds_to_fork() << std::endl;
            continue;
        }
        if (what == "busy") {
            std::thread([] {
                for (;;) {
                    g_work = g_work + 1;
                }
            }).detach();
            std::cout << "done" << std::endl;
            continue;
        }
        std::cin >> count;
        if (what == "heap") {
            keep_bytes(count);
        } else if (what == "list" || what == "shuffled") {
            keep_list(count, what == "shuffled");
        } else {
            for (std::uint64_t i = 0; i < count; ++i) {
                const std::uint64_t key = i * 0x9e3779b97f4a7c15U;
                (what == "map" ? g_map[key] : g_hash[key]) = i;
            }
        }
        std::cout << "done" << std::endl;
    }
    std::_Exit(0);
}
