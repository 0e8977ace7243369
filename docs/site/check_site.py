"""Check built pages: every link is valid, and nothing is fetched from other sites.

python docs/site/check_site.py [FOLDER]   exit code 1 if something is wrong
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches automatically; links that people follow may lead to other sites.
FETCHED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "link": ("href",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
ELSEWHERE = re.compile(r"^(?:\w+:)?//")
IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""")


@dataclass
class Found(HTMLParser):
    """The contents of a page: anchors, links, fetched files and styles."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the anchors and targets of a tag."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self._in_style = tag == "style"
        self.styles.append(values.get("style", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        for name in FETCHED.get(tag, ()):
            if name in values:
                parts = values[name].split(",") if name == "srcset" else [values[name]]
                self.fetched += [part.split()[0] for part in parts if part.split()]

    def handle_data(self, data: str) -> None:
        """Record the text of a style."""
        if self._in_style:
            self.styles.append(data)


def read_page(path: Path) -> Found:
    """Return the contents of a page."""
    found = Found()
    found.feed(path.read_text("utf-8"))
    found.close()
    return found


def faults_of(site: Path) -> list[str]:
    """Return a message for each broken link, and for each file from another site."""
    paths = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): read_page(path) for path in paths}  # _static: templates of the theme
    faults = [] if pages else [f"{site} has no pages"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        outside = [target for target in page.fetched if ELSEWHERE.match(target)]
        outside += [target for style in page.styles for target in IN_STYLE.findall(style)]
        faults += [f"{name} fetches {target} from elsewhere" for target in outside]
        inside = [target for target in page.fetched if not ELSEWHERE.match(target)]
        for target in dict.fromkeys([*page.links, *inside]):
            faults += [f"{name} links to {target}: {why}" for why in dead(path, target, pages)]
    for path in sorted(site.rglob("*.css")):
        for target in IN_STYLE.findall(path.read_text("utf-8")):
            faults.append(f"{path.relative_to(site)} fetches {target} from elsewhere")
    return faults


def dead(page: Path, target: str, pages: dict[Path, Found]) -> list[str]:
    """Return why a link is broken, in a list of one or none."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return []
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.is_file():
        return ["there is no such file"]
    anchor = unquote(parts.fragment)
    if anchor and path in pages and anchor not in pages[path].anchors:
        return [f"there is no '{anchor}' on that page"]
    return []


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    found_faults = faults_of(folder)
    print("\n".join(found_faults) or f"{folder}: no fault found")
    sys.exit(1 if found_faults else 0)
