#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""check_layers.py: each include goes down the layers, and into nobody's private rooms.

CMakeLists.txt has the layers, in their order. include/memleax/LAYER/ is for the layers above, src/LAYER/ for LAYER alone.
One line for each include that is wrong, and for each public header that no other layer needs; status 1 if there is any.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUBLIC = "include/memleax/"
INCLUDE = re.compile(r'^#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files(folder):
    for where, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in sorted(names):
            if name.endswith((".cpp", ".hpp", ".h", ".S")):
                yield os.path.relpath(os.path.join(where, name), ROOT)


def layer_of(path):
    """None: the program, above all layers."""
    if path.startswith("arch/"):
        return "arch"
    match = re.match(r"(?:include/memleax|src)/([a-z_]+)/", path)
    return match.group(1) if match else None


# arch's contract, and what the inline engine's agent has of it within the target
ARCH_PUBLIC = ("arch.hpp", "agent_cpu.hpp", "probe_operand.hpp", "thread_area.hpp", "thread_pointer_from.hpp")


def resolve(path, name):
    """The file of ours that an include means, or None."""
    layer = layer_of(path)
    folders = [os.path.dirname(path), "include", "arch"]
    if layer is not None:
        folders.append("src/" + layer)
    for folder in folders:
        found = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(ROOT, found)):
            return found
    return None


def main():
    layers = re.findall(r"^memleax_layer\((\w+)", read("CMakeLists.txt"), re.MULTILINE)
    place = {layer: i for i, layer in enumerate(layers)}
    place[None] = len(layers)
    problems = []
    private = {}  # a file's name in src -> the first file of that name
    for path in files("src"):
        private.setdefault(os.path.basename(path), path)
    users = {}  # public header -> layers that include it
    for path in [*files("include"), *files("src"), *files("arch")]:
        layer = layer_of(path)
        if layer not in place:
            problems.append(f"{path}: there is no layer {layer} in CMakeLists.txt")
            continue
        for name in INCLUDE.findall(read(path)):
            used = resolve(path, name)
            if used is None:
                owner = private.get(os.path.basename(name))
                if owner is not None and name.endswith("hpp"):
                    problems.append(f"{path}: {name} is private to layer {layer_of(owner)}")
                continue
            theirs = layer_of(used)
            if place[theirs] > place[layer]:
                problems.append(f"{path}: layer {layer} may not use {theirs} ({name}), which is above it")
            elif theirs != layer and not used.startswith(PUBLIC) and os.path.basename(used) not in ARCH_PUBLIC:
                problems.append(f"{path}: {name} is private to layer {theirs}")
            if used.startswith(PUBLIC):
                users.setdefault(used, set()).add(path)
    # Needed by another layer, or by a header that is.
    needed = {header for header, paths in users.items() if any(layer_of(p) != layer_of(header) for p in paths)}
    while True:
        more = {header for header, paths in users.items() if header not in needed and needed & paths}
        if not more:
            break
        needed |= more
    for header in files("include"):
        if header not in needed:
            problems.append(f"{header}: no other layer needs it: it belongs into src/{layer_of(header)}/")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
