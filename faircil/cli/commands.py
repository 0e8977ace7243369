"""How a command comes to its place on the command line."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import Any


def add_command(
    subparsers: argparse._SubParsersAction[Any], name: str, module: ModuleType
) -> argparse.ArgumentParser:
    """Add the command of a module with ``HELP``, ``EPILOG`` and ``add_arguments``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=module.HELP,
        description=module.HELP[0].upper() + module.HELP[1:] + ".",
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser
