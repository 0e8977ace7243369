"""Contract checks for user-defined pieces; the built-in ones are tested with them as well.

Each check takes a function, a class, a row or a registered name. It raises an AssertionError that
lists all violations of the contract, and returns nothing if there are none. No test framework is
needed.
"""

from faircil.testing.learners import check_learner as check_learner
from faircil.testing.pieces import (
    check_buffer_rule as check_buffer_rule,
    check_dataset as check_dataset,
    check_metric as check_metric,
)
from faircil.testing.programs import (
    check_loss as check_loss,
    check_measure as check_measure,
    check_solver as check_solver,
)
