"""Fair post-processing of predicted probabilities; needs only NumPy and HiGHS."""

from faircil.postprocess.epsilon_fair import EpsilonFair as EpsilonFair, FittedRule as FittedRule

# Keyed by the names that ``faircil run --postprocess`` accepts.
POSTPROCESSES: dict[str, type[EpsilonFair]] = {"eps-fair": EpsilonFair}
EPSILON = 0.05  # default
