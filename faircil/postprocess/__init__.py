"""Predictions changed after training so that groups are treated alike: numpy and HiGHS only."""

from faircil.postprocess.epsilon_fair import EpsilonFair as EpsilonFair, FittedRule as FittedRule

# By the names that ``faircil run --postprocess`` takes.
POSTPROCESSES: dict[str, type[EpsilonFair]] = {"eps-fair": EpsilonFair}
EPSILON = 0.05  # unless the user says otherwise
