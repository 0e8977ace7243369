"""Write the gallery: run ``examples/gallery/*.py``, and make a page and a picture of each.

    python docs/site/gallery.py          all of them
    python docs/site/gallery.py NAME …   some of them, such as a_shortcut

An example is a script of its own. Its docstring has a title, a text for the page, and a paragraph
that begins with ``Picture:``, the description for people who cannot see it. It saves one picture,
under its own name with hyphens. Its page has the text, the picture, the code, and what it prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import runpy
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from navigation import DOCS, ROOT

EXAMPLES = ROOT / "examples/gallery"
PAGES = DOCS / "gallery"


@dataclass(frozen=True)
class Example:
    """The parts of an example."""

    path: Path
    title: str
    text: str
    picture: str
    code: str

    @property
    def name(self) -> str:
        """Return the name of its page and picture."""
        return self.path.stem.replace("_", "-")


def read_example(path: Path) -> Example:
    """Return the parts of an example."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    described = ast.get_docstring(tree)
    assert described is not None, f"{path} has no docstring"
    title, *paragraphs, picture = described.split("\n\n")
    assert picture.startswith("Picture: "), f"the docstring of {path} does not end with a picture"
    last = tree.body[0].end_lineno
    code = "\n".join(source.splitlines()[last:]).strip()
    words = " ".join(picture.removeprefix("Picture: ").split())
    return Example(path, title, "\n\n".join(paragraphs), words, code)


def page_of(example: Example, printed: str) -> str:
    """Return the page of an example."""
    source = f"examples/gallery/{example.path.name}"
    return f"""# {example.title}

{example.text}

![{example.picture}](images/{example.name}.png)

```python
{example.code}
```

```text
{printed.rstrip()}
```

[{source}](../../{source}) is this script. `make gallery` writes this page and its picture.
"""


def write(example: Example) -> None:
    """Run an example, and write its page and its picture."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(example.path), run_name="__main__")
        picture = Path(f"{example.name}.png").read_bytes()
    (PAGES / "images").mkdir(parents=True, exist_ok=True)
    (PAGES / "images" / f"{example.name}.png").write_bytes(picture)
    (PAGES / f"{example.name}.md").write_text(page_of(example, printed.getvalue()), "utf-8")


def main() -> None:
    """Write the given examples, or all of them."""
    for path in sorted(EXAMPLES.glob("*.py")):
        if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
            print(f"running {path.relative_to(ROOT)}")
            write(read_example(path))


if __name__ == "__main__":
    main()
