"""Sphinx settings of the site; ``build_site.py`` writes the sources and calls Sphinx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx

from faircil import __version__

HERE = Path(__file__).resolve().parent

project = "faircil"
author = "The faircil developers"
version = release = __version__
language = "en"
root_doc = "index"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.githubpages",  # adds a file that makes such hosts serve folders that begin with _
    "sphinx_copybutton",
]

myst_heading_anchors = 4  # the same anchors as in the repository's web view
default_role = "literal"  # single backticks in docstrings
highlight_language = "bash"  # of blocks without a name, which are commands

# Docstrings have the types of parameters, so signatures need not.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, like the parameters
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "faircil"
html_static_path = [str(HERE / "static")]
html_css_files = ["faircil.css"]
html_favicon = str(HERE / "static/logo.svg")
html_extra_path = [str(HERE.parents[1] / "build/site/files")]
html_search_scorer = str(HERE.parents[1] / "build/site/search.js")
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as set in the reader's system
html_theme_options = {
    "logo": {
        "text": "faircil",
        "image_light": str(HERE / "static/logo.svg"),
        "image_dark": str(HERE / "static/logo.svg"),
    },
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "search_as_you_type": True,
    "search_bar_text": "Search",
    "show_toc_level": 2,
    "footer_start": [],
    "footer_center": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# Copy examples of docstrings without prompts and output; blocks of output have no button.
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"


def unlink_shapes(_app: Sphinx, doctree: Any) -> None:
    """Do not link words of types, as in ``shape (n,)``, to attributes of the same name."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        if reference.get("refspecific") and reference["reftarget"].islower():
            reference.replace_self(reference.children)


def setup(app: Sphinx) -> None:
    """Register the handlers that Sphinx calls."""
    app.connect("doctree-read", unlink_shapes)
