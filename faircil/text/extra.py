"""The packages of the extra ``faircil[text]``: imported when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from faircil.errors import FaircilError


def text_module(name: str) -> ModuleType:
    """Import a package of the extra; FaircilError if it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FaircilError(
            f"text encoders need the {name} package ({error}): pip install 'faircil[text]'"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers report and draw nothing in the block: what matters is checked instead."""
    logging = text_module("transformers").utils.logging
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
