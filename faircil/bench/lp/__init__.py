"""Time of the solvers on weighting programs, against the number of columns."""
