#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a program behave with memleax as without? Its output and its exit status are compared, when
memleax starts it or attaches to it at a random moment, and is told to leave (SIGINT), is killed
(SIGKILL), or is killed while it leaves, at another.

    scripts/undisturbed.py --build build/ci                     the rows of fixtures/unattended.c
    scripts/undisturbed.py --build build/ci -- redis-benchmark -q   any program that ends by itself
                                                            and always says the same

Every combination of these and of -f gets its share of --runs, of each row. A run in which the program
had not begun when memleax was killed (a command that memleax is starting goes with it), or had ended
already, is made again. Bad are: another output or status, no end within --limit seconds, a memory error
in memleax's report (there is none), and a memleax that crashes. Exits with 1 if anything was bad.
"""
import argparse
import collections
import ctypes
import itertools
import json
import math
import os
import pathlib
import platform
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent
ROWS = ["breakpoint", "raise", "kill", "queue", "handler", "ignore", "ignore-instead", "other-handler",
        "handler-fork", "vfork", "fork", "write", "writev", "send", "recv", "write+", "writev+", "send+",
        "recv+", "generate"]
if platform.machine() == "x86_64":
    ROWS.insert(4, "step")
COMBINATIONS = [" ".join(each) for each in itertools.product(
    ("-", "-f"), ("started", "attached"), ("SIGINT", "SIGKILL", "SIGINT,SIGKILL"))]
PR_SET_CHILD_SUBREAPER = 36


def fields_of_stat(pid):
    """State, parent, ... of /proc/PID/stat; None if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def text_of(path):
    try:
        return pathlib.Path(path).read_text(errors="replace").rstrip("\n\0")
    except OSError as error:
        return f"({error.strerror})"


def descendants():
    """The processes that this one has to wait for, children after their parents."""
    parents = {}
    for entry in os.listdir("/proc"):
        fields = fields_of_stat(entry) if entry.isdigit() else None
        if fields:
            parents[int(entry)] = int(fields[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def state_of(pid):
    lines = []
    for tid in sorted(os.listdir(f"/proc/{pid}/task")):
        at = f"/proc/{pid}/task/{tid}"
        status = [line.replace("\t", " ") for line in text_of(at + "/status").splitlines()
                  if line.startswith(("State", "TracerPid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"))]
        lines.append(f"{tid} {text_of(at + '/comm')}: {', '.join(status)}, wchan {text_of(at + '/wchan')}, "
                     f"syscall {text_of(at + '/syscall')}")
    return "\n".join(lines)


class Run:
    """One run of the program with memleax, in a process of its own that all of the run's processes
    become children of, in the end."""

    def __init__(self, options, row, combination, alone, seed):
        self.options, self.row, self.alone = options, row, alone
        self.follows, self.begin, self.end = combination.split()
        self.random = random.Random(seed)
        self.result = {"seed": seed}
        self.statuses = {}  # of what has ended: (start, pid) -> (comm, status)
        self.memleax = self.program = None

    def pause(self, seconds):
        """Also reaps: what has ended meanwhile stays a zombie otherwise, which memleax would see."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.reap()
            time.sleep(min(left, 0.02))

    def reap(self):
        """False if there is nobody left to wait for."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                return False
            if ended is None:
                return True
            pid = ended.si_pid
            fields, comm = fields_of_stat(pid), text_of(f"/proc/{pid}/comm")
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            self.statuses[int(fields[19]), pid] = comm, status

    def ended(self, pid):
        return next((status for (_, each), (_, status) in self.statuses.items() if each == pid), None)

    def start(self, command, name):
        with open("out", "ab") as out, open(name, "ab") as err:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err).pid

    def tell(self, number):
        self.reap()
        if self.ended(self.memleax) is None:
            os.kill(self.memleax, number)
            return True
        return False

    def moment(self, most):
        """Half of them early, where memleax starts and attaches, whatever that takes here."""
        if self.random.random() < 0.5:
            return math.exp(self.random.uniform(math.log(0.003), math.log(most)))
        return self.random.uniform(0, most)

    def make(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        check = ["--check"] if self.random.random() < 0.25 else []
        follow = ["-f"] if self.follows == "-f" else []
        words = [self.options.memleax, "-q", "-n", "-F", "json", "-o", "report", "--engine",
                 self.options.engine, *check, *follow]
        self.result["options"] = " ".join(check + follow)
        left = self.alone["seconds"] * 0.9
        if self.begin == "attached":
            self.program = self.start(self.row, "program-err")
            attach = self.random.uniform(0, left / 3)
            left -= attach
            self.pause(attach)
            self.memleax = self.start(words + [str(self.program)], "err")
        else:
            self.memleax = self.start(words + ["--"] + self.row, "err")
        wait = self.moment(left)
        self.result["wait"] = round(wait, 4)
        self.pause(wait)
        self.result["watching"] = "watching" in text_of("err")
        in_time = self.tell(signal.SIGKILL if self.end == "SIGKILL" else signal.SIGINT)
        if self.end == "SIGINT,SIGKILL":
            self.pause(self.random.uniform(0, 0.05))
            self.tell(signal.SIGKILL)
        deadline = time.monotonic() + self.options.limit
        while self.reap():
            if time.monotonic() > deadline:
                self.give_up()
                return
            time.sleep(0.02)
        self.judge(in_time)

    def give_up(self):
        pids = descendants()
        self.result["bad"] = f"not ended after {self.options.limit} s"
        self.result["states"] = [state_of(pid) for pid in pids if os.path.exists(f"/proc/{pid}/task")]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 10
        while self.reap() and time.monotonic() < deadline:
            time.sleep(0.05)

    def judge(self, in_time):
        output, errors = text_of("out"), text_of("err")
        memleax = self.ended(self.memleax)
        name = os.path.basename(self.row[0])[:15]
        if self.begin == "attached":
            status = self.ended(self.program)
        elif watched := re.search(r"watching (?:\d+ processes: )?(\d+) \(", errors):
            status = self.ended(int(watched[1]))
            if status is None:  # memleax has waited for it, and may have said how it ended
                told = re.search(rf"process {watched[1]} has ended: (?:exit status (\d+)|killed by signal (\d+))",
                                 errors)
                if told:
                    status = int(told[1]) if told[1] else -int(told[2])
                elif memleax == -signal.SIGKILL or f"process {watched[1]} has ended" in errors:
                    status = self.alone["status"]  # nobody knows
                    self.result["uncounted"] = "ended before"
                else:
                    status = memleax
        else:  # the first of that name: the others are its children, or of memleax
            status = next((status for _, (comm, status) in sorted(self.statuses.items()) if comm == name), None)
        self.result.update(status=status, memleax=memleax, output=output, errors=errors)
        allowed = [0, 1, self.alone["status"]]
        if "SIGKILL" in self.end:
            allowed.append(-signal.SIGKILL)
        if not self.result["watching"]:
            allowed.append(-signal.SIGINT)  # it had not come to expecting that
        has_begun = self.begin == "attached" or output != "" or status not in (None, -signal.SIGKILL) or \
            self.result["watching"]
        if not has_begun:
            self.result["uncounted"] = "not begun"
        elif not in_time:
            self.result["uncounted"] = "ended before"
        if has_begun and in_time and (status, output) != (self.alone["status"], self.alone["output"]):
            self.result["bad"] = f"status {status}, '{output}'"
        elif memleax not in allowed:
            self.result["bad"] = f"memleax's status is {memleax}"
        elif os.path.exists("report") and memleax == 0:
            found = json.loads(text_of("report") or "{}").get("errors", [])
            if found:
                self.result["bad"] = f"memory errors in the report: {len(found)}"


def in_child(folder, work):
    """Calls work() in a process of its own, in a new folder; returns (pid, where its result comes)."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(theirs)
        return pid, ours
    os.setsid()
    os.makedirs(folder)
    os.chdir(folder)
    try:
        result = work()
    except BaseException as error:  # pylint: disable=broad-except
        result = {"bad": f"{type(error).__name__}: {error}"}
    with os.fdopen(theirs, "w") as pipe:
        json.dump(result, pipe)
    os._exit(0)


class Matrix:
    def __init__(self, options, rows):
        self.options, self.rows = options, rows
        self.combinations = [each for each in COMBINATIONS if re.search(options.only, each)]
        self.random = random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="undisturbed-")
        self.counts = collections.defaultdict(collections.Counter)  # row, combination -> what -> how many
        self.running = {}  # pipe -> pid, row, combination, folder
        self.made = 0
        self.bad = 0
        self.alone = {}
        self.until = time.monotonic() + options.minutes * 60 if options.minutes else None

    def log(self, text):
        print(time.strftime("%H:%M:%S"), text, flush=True)

    def run_alone(self):
        for row in self.rows:
            before = time.monotonic()
            ended = subprocess.run(row, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
            seconds = time.monotonic() - before
            self.alone[tuple(row)] = {"status": ended.returncode, "seconds": seconds,
                                      "output": ended.stdout.decode(errors="replace").rstrip("\n\0")}

    def next_task(self):
        """The row and combination that has been run least, as long as one lacks something."""
        share = math.ceil(self.options.runs / len(self.combinations))
        under_way = collections.Counter((row, combination) for _, row, combination, _ in self.running.values())
        tasks = []
        for row in self.alone:
            for combination in self.combinations:
                made = self.counts[row, combination]["counted"] + under_way[row, combination]
                if made < share:
                    tasks.append(((made + self.random.random()) / self.options.weight.get(row[-1], 1), row,
                                  combination))
        return min(tasks)[1:] if tasks else None

    def start(self, row, combination):
        self.made += 1
        folder = f"{self.folder}/{self.made}"
        run = Run(self.options, list(row), combination, self.alone[row], self.random.getrandbits(32))

        def work():
            run.make()
            return run.result

        pid, pipe = in_child(folder, work)
        self.running[pipe] = pid, row, combination, folder

    def take(self, pipe):
        pid, row, combination, folder = self.running.pop(pipe)
        with os.fdopen(pipe) as results:
            text = results.read()
        os.waitpid(pid, 0)
        result = json.loads(text) if text else {"bad": "no result"}
        counts = self.counts[row, combination]
        if "bad" in result:
            self.bad += 1
            counts["bad"] += 1
            self.log(f"BAD {' '.join(row[1:] or row)} {combination}: {result}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        counts[result.get("uncounted", "counted")] += 1
        if "uncounted" not in result:
            counts["watching"] += result.get("watching", False)
            if result.get("memleax") == 1:
                counts["refused"] += 1

    def table(self):
        lines = [f"{'':32} counted  watched  refused  not begun  ended before  bad; least of a combination"]
        for row in self.alone:
            total = sum((self.counts[row, each] for each in self.combinations), collections.Counter())
            least = min(self.counts[row, each]["counted"] for each in self.combinations)
            lines.append(f"{' '.join(row[1:] or row):32} {total['counted']:7}  {total['watching']:7}  "
                         f"{total['refused']:7}  {total['not begun']:9}  {total['ended before']:12}  "
                         f"{total['bad']:3}; {least}")
        return "\n".join(lines)

    def work(self):
        self.run_alone()
        self.log(f"seed {self.options.seed}, engine {self.options.engine}")
        for row, alone in self.alone.items():
            self.log(f"{' '.join(row)}: {alone}")
        told = time.monotonic()
        while True:
            while len(self.running) < self.options.jobs and \
                    (self.until is None or time.monotonic() < self.until):
                task = self.next_task()
                if task is None:
                    break
                self.start(*task)
            if not self.running:
                break
            for pipe in select.select(list(self.running), [], [], 5)[0]:
                self.take(pipe)
            if time.monotonic() > told + 120:
                told = time.monotonic()
                self.log("so far\n" + self.table())
        self.log("done\n" + self.table())
        if self.bad == 0:
            shutil.rmtree(self.folder)
        return 1 if self.bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER / "build/ci", help="the build's folder")
    parser.add_argument("--memleax", help="another memleax than the build's")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--rows", help="of the fixture, with commas between: write,send; send*5: five times as often")
    parser.add_argument("--only", default="", help="combinations like this: 'started SIGKILL', '^-f'")
    parser.add_argument("--seconds", default="1", help="that a row of the fixture takes")
    parser.add_argument("--runs", type=int, default=200, help="of each row that have to count")
    parser.add_argument("--jobs", type=int, default=6, help="runs at the same time")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a run hangs")
    parser.add_argument("--minutes", type=float, help="after which no run is begun")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    options.memleax = os.path.abspath(options.memleax or options.build / "memleax")
    options.weight = {}
    names = []
    for word in (options.rows or ",".join(ROWS)).split(","):
        name, _, times = word.partition("*")
        names.append(name)
        options.weight[name] = float(times or 1)
    fixture = os.path.abspath(options.build / "fixtures/unattended")
    rows = [[shutil.which(options.command[0]) or options.command[0], *options.command[1:]]] if options.command \
        else [[fixture, options.seconds, name] for name in names]
    sys.exit(Matrix(options, rows).work())


if __name__ == "__main__":
    main()
