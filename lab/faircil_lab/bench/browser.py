"""Chromium without a window, driven over two pipes: a page as it is opened, measured and seen.

The browser's DevTools protocol is JSON, a message ended by a zero byte: commands go to its file
descriptor 3, answers and events come from 4. So no driver has to be installed, no port is opened,
and the page is the file itself, unaltered.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from faircil.errors import FaircilError

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    "--proxy-server=127.0.0.1:9",  # what the browser itself would ask for goes nowhere
    "--remote-debugging-pipe",
)
FREE = 10  # file descriptors from here on are not in use
SECONDS = 120  # an answer that takes longer does not come
CHUNK = 2**16
ZERO = b"\0"
WINDOWS = {"desktop": (1280, 900), "phone": (360, 740)}
SCHEMES = ("light", "dark")

# Two frames: the first is drawn once the page is laid out, the second begins after that.
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
COUNTED = "document.querySelectorAll('*').length"
UNFOLDED = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
# What is wider than the window, outside of parts that scroll by themselves.
CUT_OFF = """[...document.querySelectorAll('body *')].filter(one =>
  one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !one.closest('.scroll, .skip')).map(one => one.outerHTML.slice(0, 120))"""


def find_chromium() -> str:
    """Return the path of the browser; FaircilError where there is none."""
    for name in NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    raise FaircilError(
        "opening a page needs Chromium, and there is none; install it (on Debian and Ubuntu: "
        "apt-get install chromium), or measure without it: --repeats 0"
    )


@dataclass(frozen=True)
class Opened:
    """How a page was opened.

    Parameters
    ----------
    seconds : float
        From the request until it is drawn, folded as it comes.
    unfolded : float
        Seconds to lay out and draw it with all folded parts open.
    elements : int
    asked : tuple of str
        Addresses that it asked for, besides itself.
    errors : tuple of str
        What its console says.
    """

    seconds: float
    unfolded: float
    elements: int
    asked: tuple[str, ...]
    errors: tuple[str, ...]


class Browser:
    """A browser with a profile of its own, that ends with its ``with`` block."""

    def __init__(self) -> None:
        self._path = find_chromium()
        self._sent = 0
        self._left = b""
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        """Start it."""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._to = _pipe()
        self._from, theirs_out = _pipe()
        quiet = os.open(os.devnull, os.O_RDWR)
        places = {quiet: (0, 1, 2), theirs_in: (3,), theirs_out: (4,)}
        actions = [(os.POSIX_SPAWN_DUP2, a, b) for a, both in places.items() for b in both]
        words = [self._path, *OPTIONS, f"--user-data-dir={self._profile.name}"]
        home = os.environ | {"HOME": self._profile.name}
        # A session of its own: the browser's many processes end together.
        self._pid = os.posix_spawn(self._path, words, home, file_actions=actions, setsid=True)
        for one in places:
            os.close(one)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, whatever it does."""
        os.close(self._to)
        os.close(self._from)
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._profile.cleanup()

    @property
    def version(self) -> str:
        """What it calls itself, such as HeadlessChrome/150.0.7871.100."""
        return str(self.call("Browser.getVersion")["product"])

    def open(self, page: Path) -> Opened:
        """Open a page in a new tab, and close it again."""
        tab = _Tab(self)
        start = time.perf_counter()
        tab.navigate(page)
        tab.value(DRAWN)
        seconds = time.perf_counter() - start
        elements = int(tab.value(COUNTED))
        start = time.perf_counter()
        tab.value(UNFOLDED)
        tab.value(DRAWN)
        unfolded = time.perf_counter() - start
        asked = [event["request"]["url"] for event in tab.events("Network.requestWillBeSent")]
        errors = [event["entry"]["text"] for event in tab.events("Log.entryAdded")]
        errors += [str(event["args"]) for event in tab.events("Runtime.consoleAPICalled")]
        tab.close()
        others = tuple(url for url in asked if url != page.resolve().as_uri())
        return Opened(seconds, unfolded, elements, others, tuple(errors))

    def look(self, page: Path, window: str, scheme: str, picture: Path) -> tuple[str, ...]:
        """Draw a page, all of it, as it comes; return what is cut off with all parts unfolded.

        Parameters
        ----------
        page : Path
        window : {"desktop", "phone"}
        scheme : {"light", "dark"}
        picture : Path
            A PNG file to write.
        """
        width, height = WINDOWS[window]
        tab = _Tab(self)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < height}
        tab.call("Emulation.setDeviceMetricsOverride", size)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        tab.call("Emulation.setEmulatedMedia", {"features": wanted})
        tab.navigate(page)
        tab.value(DRAWN)
        whole = {"captureBeyondViewport": True, "format": "png"}
        picture.write_bytes(base64.b64decode(tab.call("Page.captureScreenshot", whole)["data"]))
        tab.value(UNFOLDED)
        tab.value(DRAWN)
        cut_off = tab.value(CUT_OFF)
        tab.close()
        return tuple(cut_off)

    def call(
        self, method: str, parameters: Mapping[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        """Send a command and return its result; events that come before it are kept."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method}
        message |= {"params": dict(parameters or {})} | ({"sessionId": session} if session else {})
        content = json.dumps(message).encode() + ZERO
        while content:
            content = content[os.write(self._to, content) :]
        while True:
            found = self.receive()
            if found.get("id") != self._sent:
                self._events.append(found)
            elif "error" in found:
                raise FaircilError(f"Chromium refuses {method}: {found['error']['message']}")
            else:
                result: dict[str, Any] = found["result"]
                return result

    def wait(self, event: str, session: str) -> None:
        """Wait for an event of a tab."""
        while not self.events(event, session):
            self._events.append(self.receive())

    def events(self, name: str, session: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of a name that a tab has had."""
        own = (e for e in self._events if e.get("sessionId") == session and e["method"] == name)
        return [event["params"] for event in own]

    def receive(self) -> dict[str, Any]:
        """Read one message; FaircilError if there is none within two minutes, or no browser."""
        while ZERO not in self._left:
            ready, _, _ = select.select([self._from], [], [], SECONDS)
            content = os.read(self._from, CHUNK) if ready else b""
            if not content:
                why = "has ended" if ready else f"has not answered for {SECONDS} s"
                raise FaircilError(f"Chromium ({self._path}) {why}; try it by hand: --headless")
            self._left += content
        message, _, self._left = self._left.partition(ZERO)
        found: dict[str, Any] = json.loads(message)
        return found


class _Tab:
    """A tab of a browser, whose events are recorded."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = {"targetId": self._target, "flatten": True}
        self._session = browser.call("Target.attachToTarget", attached)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session)

    def navigate(self, page: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.call("Page.navigate", {"url": page.resolve().as_uri()})
        self._browser.wait("Page.loadEventFired", self._session)

    def value(self, script: str) -> Any:
        """Return what a script of ours comes to; the page has none, and its policy stays."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", asked)
        if "exceptionDetails" in found:
            raise FaircilError(f"Chromium cannot measure the page: {found['exceptionDetails']}")
        return found["result"].get("value")

    def events(self, name: str) -> list[dict[str, Any]]:
        return self._browser.events(name, self._session)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", {"targetId": self._target})


def _pipe() -> tuple[int, int]:
    """Make a pipe whose ends are not among the first few file descriptors; (read, write)."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, FREE) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
