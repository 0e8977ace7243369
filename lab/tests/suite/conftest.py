from __future__ import annotations

from cli_fixtures import cli as cli, nothing_drawn as nothing_drawn, write_table as write_table
