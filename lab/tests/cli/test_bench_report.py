from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli_outcome import Cli
from faircil_lab.bench import browser
from faircil_lab.bench.browser import Browser, find_chromium

SMALL = (
    *("bench", "report", "--dataset", "toy-groups", "--methods", "er", "fsw"),
    *("--set", "epochs=1", "--seeds", "0-1"),
)
needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, browser.NAMES)), reason="needs Chromium"
)


def test_sizes_need_no_browser(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "NAMES", ("no-such-browser",))
    outcome = cli(*SMALL, "--repeats", "0", "--page", "page.md")
    assert outcome.code == 0, outcome.err
    (found,) = json.loads((tmp_path / "bench/report/results.json").read_text())["reports"]
    page = tmp_path / "bench/report/toy-groups.html"
    assert (found["runs"], found["methods"]) == (4, 2)
    assert found["size"] == page.stat().st_size
    assert "is under 5 MB; it was not opened" in (tmp_path / "page.md").read_text("utf-8")


def test_what_is_missing_is_told_before_any_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "NAMES", ("no-such-browser",))
    outcome = cli(*SMALL)
    assert outcome.code == 1
    assert "apt-get install chromium), or measure without it: --repeats 0" in outcome.err
    assert not (tmp_path / "bench").exists()
    outcome = cli(*SMALL, "--repeats", "-1", "--jobs", "0", "--seeds", "x")
    assert outcome.code == 2
    for text in ("--repeats is -1", "--jobs is 0", "seeds"):
        assert text in outcome.err


@needs_chromium
def test_reports_are_opened_and_looked_at(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*SMALL, "--repeats", "2")
    assert outcome.code == 0, outcome.err
    (found,) = json.loads((tmp_path / "bench/report/results.json").read_text())["reports"]
    assert len(found["opened"]) == len(found["unfolded"]) == 2
    assert all(seconds > 0 for seconds in found["opened"])
    assert found["asked"] == found["errors"] == []
    assert found["elements"] > 500
    assert found["browser"] in (tmp_path / "bench/report/page.md").read_text("utf-8")
    assert set(found["cut_off"]) == {
        "desktop, light", "desktop, dark", "phone, light", "phone, dark"
    }  # fmt: skip
    assert not any(found["cut_off"].values())
    for name in ("desktop-light", "phone-dark"):
        picture = tmp_path / f"bench/report/toy-groups-{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")


@needs_chromium
def test_what_a_page_does_wrong_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!DOCTYPE html><body><p id='wide' style='width: 3000px'>wide</p><img src='near.png'>"
        "<script>console.log('hello')</script></body>"
    )
    with Browser() as opened:
        found = opened.open(page)
        cut_off = opened.look(page, "phone", "dark", tmp_path / "bad.png")
    assert found.asked == ((tmp_path / "near.png").as_uri(),)
    assert len(found.errors) == 2  # the missing picture, and what the script says
    assert 'id="wide"' in cut_off[0]
    assert find_chromium()
