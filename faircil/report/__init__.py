"""Comparison tables, statistics and plots of results."""

from faircil.report.comparison import BOUNDS as BOUNDS
from faircil.report.comparison import Row as Row
from faircil.report.comparison import compare as compare
from faircil.report.comparison import group_runs as group_runs
from faircil.report.comparison import seed_table as seed_table
from faircil.report.table import AMONG_BEST as AMONG_BEST
from faircil.report.table import TEST as TEST
from faircil.report.table import Cell as Cell
from faircil.report.table import Table as Table
from faircil.report.table import as_markdown as as_markdown
from faircil.report.table import format_value as format_value
from faircil.report.table import heading as heading
from faircil.report.table import legend as legend
