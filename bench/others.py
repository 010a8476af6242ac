# SPDX-License-Identifier: GPL-3.0-or-later
"""What a malloc/free pair costs under other tools. Each gets a target of its own."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from processes import Failed, Lines, Memleax, Process, Target


def find(name):
    program = shutil.which(name)
    if not program:
        raise Failed("not installed")
    return program


class Tool(Process):
    """A tool that says on one of its outputs that it watches."""

    END_SIGNAL = signal.SIGINT

    def __init__(self, command, ready, folder, timeout=60):
        super().__init__(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
        self.lines = Lines(self._process.stdout)
        try:
            self.lines.wait_for(ready, timeout)
        except Failed:
            self.end()
            raise


def gdb(program):
    script = ["set pagination off", "set confirm off", "break malloc",
              "commands", "silent", "bt 8", "continue", "end",
              "echo ready\\n", "continue"]
    with tempfile.TemporaryDirectory() as folder, Target(program) as target:
        path = os.path.join(folder, "commands")
        with open(path, "w") as file:
            file.write("\n".join(script) + "\n")
        command = [find("gdb"), "-nx", "-batch", "-p", str(target.pid), "-x", path]
        log = os.path.join(folder, "log")
        with open(log, "wb") as output:  # nobody has to read it meanwhile
            debugger = Process(command, stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT)
        with debugger:
            deadline = time.monotonic() + 60
            while not re.search(rb"^ready", open(log, "rb").read(), re.MULTILINE):
                if time.monotonic() > deadline:
                    raise Failed("does not attach")
                time.sleep(0.1)
            return target.ns_per_pair(50, timeout=120)


def attach_heaptrack(folder, pid):
    tool = Tool([find("heaptrack"), "--pid", str(pid)], "njection finished", folder)
    with open(f"/proc/{pid}/maps") as maps:
        if "libheaptrack" not in maps.read():  # it says that it has finished in any case
            tool.end()
            raise Failed("gdb cannot inject it")
    return tool


@contextlib.contextmanager
def heaptrack_from_start(folder):
    """The beginning of a command whose program has heaptrack's library from its start, with what
    heaptrack(1) runs beside it. For where it cannot be injected: it costs the same."""
    home = pathlib.Path(find("heaptrack")).resolve().parent.parent / "lib/heaptrack"
    pipe = f"{folder}/heaptrack"
    os.mkfifo(pipe)
    script = f"exec {home}/libexec/heaptrack_interpret < {pipe} | gzip -c > {folder}/heaptrack.gz"
    with Process(["sh", "-c", script], start_new_session=True, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL):
        yield ["env", f"LD_PRELOAD={home}/libheaptrack_preload.so", f"DUMP_HEAPTRACK_OUTPUT={pipe}"]


def heaptrack(program, threads=1, pairs=20000, shape="plain"):
    def cost(target):
        target.ns_per_pair(1000, shape=shape)
        return min(target.ns_per_pair(pairs, shape=shape) for _ in range(3))

    with tempfile.TemporaryDirectory() as folder:
        try:
            with Target(program, threads) as target, attach_heaptrack(folder, target.pid):
                return cost(target)
        except Failed:
            with heaptrack_from_start(folder) as tool, Target(program, threads, tool) as target:
                return cost(target)


def bpftrace(program):
    probes = ("uprobe:libc:malloc /pid == {0}/ {{ @[ustack(8)] = count(); @size[tid] = arg0; }} "
              "uretprobe:libc:malloc /pid == {0}/ {{ @live[retval] = @size[tid]; }} "
              "uprobe:libc:free /pid == {0}/ {{ delete(@live[arg0]); }} "
              "BEGIN {{ printf(\"ready\\n\"); }}")
    with tempfile.TemporaryDirectory() as folder, Target(program) as target:
        command = [find("bpftrace"), "-B", "line", "-p", str(target.pid), "-e",
                   probes.format(target.pid)]
        with Tool(command, "ready", folder):
            target.ns_per_pair(1000)
            return min(target.ns_per_pair(20000) for _ in range(3))


def valgrind(program):
    """It cannot attach: the program is started by it."""
    with tempfile.TemporaryDirectory() as folder:
        tool = [find("valgrind"), "--quiet", "--leak-check=full", f"--log-file={folder}/log"]
        with Target(program, tool=tool) as target:
            target.ns_per_pair(1000)
            return min(target.ns_per_pair(20000) for _ in range(3))


def memleax(program, executable):
    with Target(program) as target, Memleax(executable, target.pid):
        target.ns_per_pair(1000)
        return min(target.ns_per_pair(200_000) for _ in range(3))
