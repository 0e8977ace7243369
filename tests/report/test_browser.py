"""The report in a real browser: nothing is cut off, nothing leaves, no script runs, no error."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from faircil.auditing.audit_files import read_audit
from faircil.auditing.audit_page import audit_part
from faircil.report.page import POLICY
from faircil.report.sections import report_page
from faircil.report.study import studies_of
from hostile_runs import write_hostile, write_hostile_audit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
DARK, LIGHT = 0, 1
SECONDS = 60  # a page that takes longer hangs
# Only a copy of the page has this script: it opens all that is folded, and writes down what is
# wider than the window, outside of parts that scroll by themselves.
PROBE = """<script>
document.querySelectorAll('details').forEach(one => { one.open = true; });
const wide = [...document.querySelectorAll('body *')].filter(one =>
  one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !one.closest('.scroll, .skip'));
const probe = document.createElement('output');
probe.textContent = JSON.stringify({
  width: document.documentElement.clientWidth,
  needed: document.documentElement.scrollWidth,
  wide: wide.map(one => one.outerHTML.slice(0, 120)),
  title: document.title,
  back: getComputedStyle(document.body).backgroundColor,
  asked: performance.getEntriesByType('resource').length,
});
parent.document.body.append(probe);
</script>"""
# A window is never narrower than 500 pixels; a frame in it is.
FRAME = (
    '<!DOCTYPE html><html style="color-scheme: light dark"><body>'
    '<iframe style="border: 0; width: {width}px; height: 740px" srcdoc="{page}"></iframe>'
    "</body></html>"
)


@pytest.fixture(scope="module", params=["runs", "audit"])
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("browser")
    if request.param == "audit":
        return report_page([], besides=[audit_part(read_audit(write_hostile_audit(folder)))])
    return report_page(studies_of(write_hostile(folder, samples=6), {"eo": "eo_gap"}))


def browse(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page without a window; its console is on stderr."""
    assert CHROMIUM is not None
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--log-level=0", f"--user-data-dir={folder / 'profile'}"),
        # What the browser itself would ask for goes nowhere.
        *("--proxy-server=127.0.0.1:9", *options, page.as_uri()),
    ]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        env=os.environ | {"HOME": str(folder)},
        check=True,
    )


def probe(text: str, folder: Path, width: int, scheme: int = LIGHT) -> dict[str, Any]:
    """Return what a page has measured of itself in a frame; its console is empty."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    assert policy in text
    probed = text.replace(policy, "").replace("</body>", f"{PROBE}</body>")
    page = folder / "probed.html"
    page.write_text(FRAME.format(width=width, page=escape(probed)), "utf-8")
    options = ("--window-size=1400,900", f"--blink-settings=preferredColorScheme={scheme}")
    done = browse(page, folder, *options, "--dump-dom")
    assert console(done) == []
    found = re.search(r"<output>(.*)</output>", done.stdout)
    assert found is not None
    measured: dict[str, Any] = json.loads(unescape(found[1]))
    return measured


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360], ids=["desktop", "phone"])
def test_nothing_is_cut_off(text: str, tmp_path: Path, width: int, scheme: int) -> None:
    found = probe(text, tmp_path, width, scheme)
    assert found["width"] == width
    assert found["needed"] <= width
    assert found["wide"] == []
    assert found["asked"] == 0
    assert found["title"].startswith("Fairness report")  # no name from data has run as a script
    red, green, blue = map(int, re.findall(r"\d+", found["back"])[:3])
    assert (red + green + blue > 600) == (scheme == LIGHT)


def test_what_is_cut_off_would_be_found(text: str, tmp_path: Path) -> None:
    wide = '<p id="wide" style="width: 2000px; max-width: none">too wide</p></main>'
    found = probe(text.replace("</main>", wide), tmp_path, 360)
    assert found["needed"] > found["width"]
    assert 'id="wide"' in found["wide"][-1]


def test_a_picture_of_the_page_without_an_error(text: str, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(text, "utf-8")
    done = browse(page, tmp_path, f"--screenshot={picture}", "--window-size=1280,900")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert console(done) == []
