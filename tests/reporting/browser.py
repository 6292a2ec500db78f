"""A headless Chromium, driven over a pipe by its own protocol: real widths, light and dark, and what it fetches."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--disable-component-update", "--disable-sync", "--remote-debugging-pipe"]
# The browser reads from descriptor 3 and writes to 4; another process puts them there, as forking with JAX around is unsafe.
START = """import os, sys
theirs = [os.dup(int(number)) for number in sys.argv[1:3]]
for descriptor, place in zip(theirs, (3, 4)):
    os.dup2(descriptor, place)
    os.set_inheritable(place, True)
os.execv(sys.argv[3], sys.argv[3:])"""


class Browser:
    """One browser with one page in it."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [sys.executable, "-c", START, str(theirs_in), str(theirs_out), BROWSER, *OPTIONS]
        command += [f"--user-data-dir={self.folder.name}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self.to, self.back = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self.numbers, self.events, self.rest, self.session = itertools.count(1), [], b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        self.to.close()  # the browser ends when its pipe does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.back.close()
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.back.fileno(), 2**20)
            if not piece:
                raise RuntimeError("the browser has gone")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while (answer := self.receive()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, *, width=1280, scheme="light"):
        """Loads a page in a window of this width, for a reader who prefers this scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    @property
    def fetched(self):
        """The address of everything the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    @property
    def complaints(self):
        """What the browser wrote on its console."""
        return [event["params"] for event in self.events if event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled")]

    def ask(self, expression):
        """The value of an expression; the tool may run scripts where the page itself may not."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self):
        """All of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])

    def print(self):
        """The page on paper, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)["data"])
