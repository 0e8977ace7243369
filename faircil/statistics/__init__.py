"""What can be said over seeds, and what cannot: numpy and scipy only."""

from faircil.statistics.differences import Interval as Interval
from faircil.statistics.differences import PairedComparison as PairedComparison
from faircil.statistics.differences import Welch as Welch
from faircil.statistics.differences import against_published as against_published
from faircil.statistics.differences import interval as interval
from faircil.statistics.differences import paired as paired
from faircil.statistics.ranking import Ranking as Ranking
from faircil.statistics.ranking import best_of as best_of
from faircil.statistics.ranking import holm as holm
