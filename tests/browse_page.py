#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens a page in headless Chromium, takes steps on it, and prints as JSON what came of them:
{"results": [...], "console": [...], "requests": [...]}.

browse_page.py PAGE < STEPS, a JSON list of
  {"eval": "JavaScript"}     its value, awaited, is the next result
  {"click": "JavaScript"}    clicks, with the mouse, the middle of the element that it gives
  {"key": "Enter"}           presses and releases a key
  {"screenshot": "FILE"}     of the whole page, as PNG
  {"media": {"media": "print", "prefers-color-scheme": "dark"}}   {"size": [390, 844]}   before or between the others
  {"pdf": "FILE"}            as it is printed
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

TIMEOUT = 120
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions",
         "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"]
KEYS = {"Enter": (13, "\r")}


class Browser:
    """Speaks the DevTools protocol over a pipe: JSON texts with a NUL behind each."""

    def __init__(self, profile):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        # Away from the numbers 3 and 4, which they get in Chromium.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (*os.pipe(), *os.pipe())]
        their_in, self.out, self.inp, their_out = ends

        def place():
            os.dup2(their_in, 3)
            os.dup2(their_out, 4)

        self.process = subprocess.Popen([chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, pass_fds=(3, 4), preexec_fn=place,
                                        start_new_session=True)
        os.close(their_in)
        os.close(their_out)
        self.buffer = b""
        self.last_id = 0
        self.session = None
        self.console = []
        self.requests = []
        self.events = []

    def receive(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.inp, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has gone")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(f"{params['type']}: " + " ".join(str(a.get("value", a.get("description")))
                                                                for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.console.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            self.requests.append(params.get("request", params)["url"])
        if method:
            self.events.append(method)

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, page):
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.set_size(1280, 900)
        self.set_media({"prefers-reduced-motion": "reduce"})
        self.page = pathlib.Path(page).resolve().as_uri()
        self.load()

    def load(self):
        self.events.clear()
        self.call("Page.navigate", url=self.page)
        while "Page.loadEventFired" not in self.events:
            self.receive()

    def set_size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def set_media(self, features):
        self.media = {**getattr(self, "media", {}), **features}
        self.call("Emulation.setEmulatedMedia", media=self.media.get("media", ""),
                  features=[{"name": name, "value": value} for name, value in self.media.items() if name != "media"])

    def eval(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", script))
        return answer["result"].get("value")

    def click(self, script):
        # Two frames, so that layout has followed the scrolling.
        x, y = self.eval(f"""(async () => {{
            const element = {script};
            element.scrollIntoView({{ block: 'center', inline: 'nearest', behavior: 'instant' }});
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def step(self, step):
        (what, value), = step.items()
        if what == "eval":
            return [self.eval(value)]
        if what == "click":
            self.click(value)
        elif what == "key":
            code, text = KEYS[value]
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=value, code=value, text=text,
                          windowsVirtualKeyCode=code)
        elif what == "screenshot":
            data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            pathlib.Path(value).write_bytes(base64.b64decode(data))
        elif what == "pdf":
            pathlib.Path(value).write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
        elif what == "media":
            self.set_media(value)
        elif what == "size":
            self.set_size(*value)
        else:
            raise ValueError(f"unknown step {what}")
        return []

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def too_long(*_):
    raise TimeoutError(f"it took longer than {TIMEOUT} s")


def main():
    steps = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(TIMEOUT)
    with tempfile.TemporaryDirectory(prefix="memleax-page-", ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            browser.open(sys.argv[1])
            results = [result for step in steps for result in browser.step(step)]
            json.dump({"results": results, "console": browser.console, "requests": browser.requests}, sys.stdout)
        finally:
            signal.alarm(0)
            browser.close()


if __name__ == "__main__":
    main()
