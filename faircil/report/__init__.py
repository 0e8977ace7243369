"""Comparison tables, statistics and plots of results."""

from faircil.report.comparison import (
    BOUNDS as BOUNDS,
    Row as Row,
    compare as compare,
    group_runs as group_runs,
    seed_table as seed_table,
)
from faircil.report.table import (
    AMONG_BEST as AMONG_BEST,
    TEST as TEST,
    Cell as Cell,
    Table as Table,
    abstention_table as abstention_table,
    as_markdown as as_markdown,
    change_table as change_table,
    format_value as format_value,
    heading as heading,
    in_markdown as in_markdown,
    legend as legend,
)
