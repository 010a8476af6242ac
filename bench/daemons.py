# SPDX-License-Identifier: GPL-3.0-or-later
"""How much real programs still do while they are watched: each under a load of its own, by turns
untraced and watched."""

import contextlib
import dataclasses
import json
import os
import pathlib
import pwd
import re
import statistics
import subprocess
import sys
import tempfile
import time

from others import attach_heaptrack, find, heaptrack_from_start
from processes import Failed, Lines, Memleax, Process

ROUNDS = 3
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclasses.dataclass
class Shares:
    """Of what is done untraced: medians of the rounds."""
    untraced: float  # a second
    watched: float
    heaptrack: str  # or why that is not known
    stopped: int  # calls that stopped their thread, of all that were seen
    calls: int


def wait_until(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise Failed("does not start")
        time.sleep(0.05)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {(done.stderr or done.stdout).strip()[-100:]}")
    return done.stdout


# A service is a context manager that gives the process to be watched, and what gives the rate of one
# round of load.

@contextlib.contextmanager
def redis(folder, tool=(), options=(), requests=200_000):
    path = f"{folder}/socket"
    with Process([*tool, find("redis-server"), "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                  "--dir", folder], **QUIET) as server:
        wait_until(lambda: os.path.exists(path))

        def rate():
            table = run([find("redis-benchmark"), "-s", path, "-t", "set,get,lpush", "-n", str(requests), "-c", "20",
                         "--csv", *options])
            rates = [float(row.split(",")[1].strip('"')) for row in table.splitlines()[1:]]
            return statistics.harmonic_mean(rates)
        yield server.pid, rate


def redis_pipelined(folder, tool=()):
    return redis(folder, tool, ("-P", "16"), requests=1_000_000)


class Worker(Process):
    """A program that does one round for each line of its input, and answers with its rate."""

    def __init__(self, command, **options):
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self._lines = Lines(self._process.stdout)

    def rate(self):
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()
        return float(self._lines.next(120))


# 50 keys of up to 5,000 bytes, set and read again, many requests in flight.
MEMCACHED_CLIENT = r"""
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile('rb')
sets = b''.join(b'set key%d 0 0 %d\r\n%s\r\n' % (i, i * 100, b'x' * (i * 100)) for i in range(50))
gets = b''.join(b'get key%d\r\n' % i for i in range(50))
answer = sum(len(b'VALUE key%d 0 %d\r\n' % (i, i * 100)) + i * 100 + len(b'\r\nEND\r\n') for i in range(50))
for line in sys.stdin:
    begin = time.monotonic()
    for i in range(2000):
        s.sendall(sets)
        assert f.read(50 * 8) == b'STORED\r\n' * 50
        s.sendall(gets)
        assert len(f.read(answer)) == answer
    print(200_000 / (time.monotonic() - begin), flush=True)
"""


@contextlib.contextmanager
def memcached(folder, tool=()):
    path = f"{folder}/socket"
    with Process([*tool, find("memcached"), "-u", "root", "-s", path, "-m", "64"], **QUIET) as server:
        wait_until(lambda: os.path.exists(path))
        with Worker([sys.executable, "-c", MEMCACHED_CLIENT, path]) as client:
            yield server.pid, client.rate


NGINX_CONF = """
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
       uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
"""


@contextlib.contextmanager
def nginx(folder, tool=()):
    port = 20000 + os.getpid() % 20000
    pathlib.Path(f"{folder}/index.html").write_text("hello\n")
    pathlib.Path(f"{folder}/conf").write_text(NGINX_CONF.format(folder=folder, port=port))
    os.chmod(folder, 0o755)
    with Process([*tool, find("nginx"), "-c", f"{folder}/conf", "-p", folder], **QUIET) as server:
        wait_until(lambda: os.path.exists(f"{folder}/pid"))

        def rate():
            text = run([find("wrk"), "-t", "1", "-c", "20", "-d", "2", f"http://127.0.0.1:{port}/index.html"])
            return float(re.search(r"Requests/sec: +([\d.]+)", text)[1])
        yield server.pid, rate


class Pgbench(Process):
    """One client of a PostgreSQL server, which goes on all the time and says each second how it does."""

    def __init__(self, folder):
        super().__init__([find("pgbench"), "-n", "-S", "-h", folder, "-U", "postgres", "-T", "1000", "-P", "1",
                          "postgres"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._lines = Lines(self._process.stderr)

    def rate(self):
        self.skip_seconds(1)  # it had begun already
        return statistics.mean(self.skip_seconds(2))

    def skip_seconds(self, count):
        return [float(re.search(r"([\d.]+) tps", self._lines.wait_for("tps", 20))[1]) for _ in range(count)]


@contextlib.contextmanager
def postgres(folder, tool=()):
    """Its backend."""
    if tool:
        raise Failed("not in forked processes")
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = None
    if not folders or user is None or os.geteuid() != 0:
        raise Failed("not installed, or not as root")
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}
    os.chown(folder, user.pw_uid, user.pw_gid)
    data = f"{folder}/data"
    run([folders[-1].with_name("initdb"), "-D", data, "-A", "trust", "-U", "postgres"], **as_user)
    with Process([folders[-1], "-D", data, "-k", folder, "-c", "listen_addresses="], **QUIET, **as_user) as server:
        wait_until(lambda: os.path.exists(f"{folder}/.s.PGSQL.5432"))
        pgbench = [find("pgbench"), "-i", "-q", "-h", folder, "-U", "postgres", "postgres"]
        wait_until(lambda: subprocess.run(pgbench, **QUIET, check=False).returncode == 0)
        with Pgbench(folder) as client:
            client.skip_seconds(1)
            children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            backends = [int(pid) for pid in children
                        if b"[local]" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
            yield backends[0], client.rate


# Objects of many sizes, some of which live on for a while.
PYTHON_PROGRAM = """
import json, os, time
text = json.dumps([{"name": "n%d" % i, "tags": list(range(i % 20)), "text": "x" * (i * 7 % 400)} for i in range(200)])
kept = []
while True:
    try:
        line = os.read(0, 100)
    except OSError as error:
        if error.errno == 512:  # ERESTARTSYS: heaptrack --pid calls functions of ours by gdb, in the midst of a read
            continue
        raise
    if not line:
        break
    begin = time.monotonic()
    for i in range(2000):
        kept.append(json.loads(text))
        if len(kept) > 20:
            kept.pop(0)
    print(2000 / (time.monotonic() - begin), flush=True)
"""
NODE_PROGRAM = """
const zlib = require('zlib');
const text = JSON.stringify(Array.from({ length: 200 }, (_, i) => ({ name: 'n' + i, text: 'x'.repeat(i * 7 % 400) })));
require('readline').createInterface({ input: process.stdin }).on('line', () => {
  const begin = process.hrtime.bigint();
  for (let i = 0; i < 1500; ++i) {
    JSON.parse(zlib.inflateSync(zlib.deflateSync(Buffer.from(text))).toString());
  }
  console.log(1500 / (Number(process.hrtime.bigint() - begin) / 1e9));
});
"""


def written(path, program):
    """heaptrack's interpreter ends at a command line of several lines, so a program is in a file."""
    pathlib.Path(path).write_text(program)
    return path


@contextlib.contextmanager
def python(folder, tool=()):
    """Without its own allocator, so that every object is a malloc."""
    command = [*tool, "/usr/bin/python3", written(f"{folder}/program.py", PYTHON_PROGRAM)]
    with Worker(command, env=os.environ | {"PYTHONMALLOC": "malloc"}) as program:
        yield program.pid, program.rate


@contextlib.contextmanager
def node(folder, tool=()):
    with Worker([*tool, find("node"), written(f"{folder}/program.js", NODE_PROGRAM)]) as program:
        yield program.pid, program.rate


# With what is wanted, as a share of the untraced.
SERVICES = (("redis-server, 20 clients", redis, 0.95),
            ("the same, 16 requests at once", redis_pipelined, 0.95),
            ("memcached", memcached, 0.95),
            ("nginx, 20 clients", nginx, 0.95),
            ("a PostgreSQL backend, pgbench -S", postgres, 0.95),
            ("python3, PYTHONMALLOC=malloc", python, 0.5),
            ("node", node, 0.95))


def measure(bench, service):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pid, rate = stack.enter_context(service(folder))
        rate()  # it is warm
        report = f"{folder}/memleax.json"
        alone, watched, stopped, calls = [], [], 0, 0
        for _ in range(ROUNDS):
            alone.append(rate())
            with Memleax(bench.memleax, pid, "-F", "json", output=report):
                rate()  # stacks are seen
                watched.append(rate())
            seen = json.loads(pathlib.Path(report).read_text())["session"].get("calls")
            if seen:  # there was one
                stopped += seen["stopped"]
                calls += seen["all"]
        untraced = statistics.median(alone)
        share = statistics.median(w / a for w, a in zip(watched, alone))
        heaptrack = heaptracks_rate(folder, pid, rate)
    if heaptrack is None:
        heaptrack = heaptracks_rate_from_start(service)
    of_heaptrack = f"{heaptrack / untraced:.2f}" if isinstance(heaptrack, float) else heaptrack
    return Shares(untraced, share, of_heaptrack, stopped, calls)


def heaptracks_rate(folder, pid, rate):
    """Last: its library stays in the process. None if it cannot be injected."""
    try:
        with attach_heaptrack(folder, pid):
            rate()
            return statistics.median(rate() for _ in range(ROUNDS))
    except Failed:
        return None


def heaptracks_rate_from_start(service):
    try:
        with tempfile.TemporaryDirectory() as folder, heaptrack_from_start(folder) as tool, \
                service(folder, tool) as (_pid, rate):
            rate()
            return statistics.median(rate() for _ in range(ROUNDS))
    except Failed as reason:
        return str(reason)
