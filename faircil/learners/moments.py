"""Moments: fair ridge regression on fixed features, from sums over all groups seen so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import nan

import numpy as np
import torch
from torch import Tensor, nn

from faircil.compute import free_memory, map_tasks, one_thread
from faircil.errors import UsageError
from faircil.learners.base import (
    Generators,
    Learner,
    Options,
    PassRecord,
    Samples,
    group_counts,
    unique_rows,
)
from faircil.learners.moments_options import BY_MEANS, MomentsOptions
from faircil.moments import GroupChange, Price
from faircil.moments.classifiers import discriminants, fit_temperature, lda, nearest_mean
from faircil.moments.criterion import Blocks, Criterion, grouped, groups_of, shares_of
from faircil.moments.evening import (
    MOST,
    Chosen,
    Evening,
    best_penalty,
    better_penalty,
    even_out,
    evened_further,
    proven_bound,
)
from faircil.moments.features import (
    Activations,
    FeatureMap,
    FeatureNet,
    InDouble,
    RandomRelu,
    Raw,
    Trained,
)
from faircil.moments.group_moments import GroupMoments, Key, penalties_for
from faircil.moments.patches import Patches
from faircil.moments.ridge import RidgeProblem
from faircil.moments.sketch import Plan, in_gib
from faircil.moments.small_cells import Clipped, Noise, pool_sums, pooled, remove_rows
from faircil.nets import last_linear
from faircil.weighting.groups import Floats, Groups, Integers
from faircil.weighting.measures import MEASURES, disparity_matrix

WIDEST, NARROWEST = 2000, 200
FILTERS = 64
MUCH_MORE = 1.5  # factor of growth in rows after which the penalty is chosen again
ANOTHER_SCALE = 0.3  # share of inputs far from the first task's above which a note is added
MANY_COPIES = 0.1  # share of copied rows above which a note is added
SPENT = 4  # maximum number of solutions after a removal: shares, current weights, two steps
# Smallest initial weight of a group in a later task, relative to its share. Losses hardly depend on
# the logarithm of a weight near 0, so a search from there would not make progress.
FEW = 0.01
FORGETTABLE = {"auto": 20_000_000, "true": None, "false": 0}  # most rows with checksums
# Record of rows that were added without choosing weights.
UNSOLVED = PassRecord(nan, nan, 0, nan, 1.0, groups=())
# Settings that affect training of the net on the first task.
OF_THE_NET = {"lr", "momentum", "epochs", "batch_size", "net", "hidden", "average_last"}


class Moments(Learner):
    """Sum the moments of each group in one pass, and solve for weights that balance their losses.

    For any order of tasks, the solution is that of weighted training on all rows seen, which are
    not stored. ``lam`` is the weight of the mean loss relative to the disparity, as in FSW. A net
    is trained only with ``features=trained``; otherwise, training settings have no effect.

    Rows of a class with an unknown attribute value (negative) form a group that is not compared
    with others. Its weight is fixed, in proportion to its fraction of the class's rows.
    """

    options = MomentsOptions
    one_pass = True
    graphable = False
    chunk = 512  # features are wider than activations usually are
    follows = MEASURES
    takes_unknown = True

    net: FeatureNet
    settings: MomentsOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.classes = last_linear(net).out_features
        self.moments: GroupMoments | None = None
        self.chosen: Chosen | None = None
        self.relative: dict[Key, float] = {}  # weight of each group relative to its share
        self.ridge = 0.0
        self.rows_at_choice = 0.0  # number of rows when the penalty was chosen
        self.temperature = 1.0
        self.told_of_copies = self.told_of_rank = False

    def grow(self, classes: int) -> None:
        """Make room for further classes."""
        self.classes = classes
        if self.moments is None:
            super().grow(classes)
        else:
            self.net.grow(classes)

    @classmethod
    def why_unused(cls, settings: Options, name: str) -> str | None:
        """Return why a setting has no effect: nothing is trained, or no weights are chosen."""
        assert isinstance(settings, MomentsOptions)
        if name == "lam":
            if settings.classifier in BY_MEANS:
                return f"it chooses no weights with classifier={settings.classifier}"
            fixed = f"its weights are fixed with group_weights={settings.group_weights}"
            return None if settings.group_weights == "fair" else fixed
        if name in ("noise_delta", "clip_norm"):
            noised = settings.noise_epsilon != "none"
            return None if noised else "there is no noise with noise_epsilon=none"
        if name == "width":
            raw = "features=raw are as many as the inputs"
            return raw if settings.features == "raw" else None
        if name in OF_THE_NET:
            untrained = f"it trains no net with features={settings.features} (trained: it does)"
            return None if settings.features == "trained" else untrained
        own = name in cls.options.model_fields
        return None if own else "it keeps no buffer and weights groups, not samples"

    def training_epochs(self, epochs: int) -> int:
        """Return ``epochs`` for the first task if the net's activations are features, else 0."""
        return epochs if self.settings.features == "trained" and self.moments is None else 0

    @property
    def takes_host_rows(self) -> bool:
        """Whether rows may stay in host memory: features are computed part by part."""
        return self.settings.features in ("relu", "raw", "both")

    def _place(self, rows: Samples) -> torch.device:
        """Return the device of the sums: a GPU, if rows or net are on one."""
        return rows.x.device if rows.x.is_cuda else next(self.net.parameters()).device

    @classmethod
    def on_activations(cls, learner: Learner, samples: Samples) -> Moments:
        """Learn samples from the last activations of another learner's net, for its measure."""
        settings = MomentsOptions(arithmetic="float64")
        moments = cls(learner.net, settings, learner.generators)
        moments.measure, moments.lam = learner.measure, learner.lam
        moments.plan = moments._planned(samples)
        moments._begin(Activations(learner.net), samples.x.device)
        moments.learn(samples)
        return moments

    @property
    def noise(self) -> Noise | None:
        """Noise on the sums of new rows, if there is any."""
        epsilon, norm = self.settings.noise_epsilon, self.settings.clip_norm
        if epsilon == "none":
            return None
        return Noise(
            epsilon, self.settings.noise_delta, self.plan.width**0.5 if norm == "auto" else norm
        )

    def admitted(self, train: Samples) -> tuple[Samples, tuple[str, ...]]:
        """Return samples in which no group has fewer rows than ``min_cell``, and notes."""
        found = pooled(train, self.settings.min_cell)
        return found.samples, found.notes

    def _begin(self, features: FeatureMap, device: torch.device) -> None:
        if self.noise is not None:
            features = Clipped(features, self.noise.norm)
        self.net = FeatureNet(features, self.classes).to(device)
        self.moments = self.empty_sums(device)

    def empty_sums(self, device: torch.device) -> GroupMoments:
        """Return moments without rows, for the features of the net."""
        found = replace(self.plan, width=self.net.features.width).moments(device)
        found.seen.most = FORGETTABLE[self.settings.forgettable]
        return found

    @property
    def summed(self) -> FeatureMap:
        """The features to sum; in double precision if the sums are and the features allow it."""
        features = self.net.features
        plain = features.inner if isinstance(features, Clipped) else features
        exact = self.settings.arithmetic == "float64" and isinstance(plain, Raw | RandomRelu)
        return InDouble(features) if exact else features

    def begin(self, first: Samples) -> None:
        """Choose the features based on the first rows, without learning these."""
        self.plan = self._planned(first)
        with torch.no_grad():
            self._begin(self._features(first), self._place(first))

    def learn(self, train: Samples) -> PassRecord:
        """Add the rows of a task to the moments, and choose the weights of all groups again."""
        train, told = self.admitted(train)
        if self.moments is None:
            self.begin(train)

        def add(moments: GroupMoments) -> None:
            if self.settings.decay < 1:
                moments.fade(group_counts(train), self.settings.decay)
            new = moments if self.noise is None else self.empty_sums(moments.device)
            new.add(train, self.summed)
            if self.noise is not None:
                self.noise.hide(new)
                moments.merge(new)

        return replace(self._change(add), notes=(*told, *self._notes(train)))

    def absorb(
        self, new: GroupMoments, *, protected: bool = False, solve: bool = True
    ) -> PassRecord:
        """Learn rows from sums of this net's features, computed in parts or elsewhere.

        Parameters
        ----------
        new : GroupMoments
            Moments of rows that have not been learned yet.
        protected : bool
            Whether small groups are already pooled and noise is added; otherwise, this is done now.
        solve : bool
            Whether to choose the weights of all groups again; otherwise, no solution is computed.
        """
        told = () if protected else pool_sums(new, self.settings.min_cell)

        def add(moments: GroupMoments) -> None:
            moments.fade(dict(zip(new.keys, new.count, strict=True)), self.settings.decay)
            if self.noise is not None and not protected:
                self.noise.hide(new)
            moments.merge(new)

        return replace(self._change(add, solve=solve), notes=(*told, *self._notes(None)))

    def forget_all(self) -> None:
        """Forget all rows; keep only the features."""
        assert self.moments is not None
        self.moments = self.empty_sums(self.moments.device)
        self.chosen, self.relative = None, {}
        self.ridge = self.rows_at_choice = 0.0
        self.temperature = 1.0
        self.told_of_copies = self.told_of_rank = False
        self.net = FeatureNet(self.net.features, self.classes).to(self.moments.device)

    def placed(self, rows: Samples) -> Samples:
        """Return learned rows with the attribute values of the cells in which they are counted."""
        if self.moments is None or self.settings.min_cell == 0:
            return rows
        return self.moments.seen.placed(rows)

    def forget(self, rows: Samples) -> PassRecord:
        """Remove learned rows: the sums are then as if these had never been seen.

        The search for weights starts from the current ones and computes only a few solutions.
        """
        if self.noise is not None:
            raise UsageError(
                "rows cannot be removed from sums with noise: what is subtracted would show in the "
                "difference of two versions; learn the other rows again, or without `noise_epsilon`"
            )
        rows, notes = self.placed(rows), list[str]()

        def remove(moments: GroupMoments) -> None:
            notes.extend(remove_rows(moments, rows, self.summed, self.settings.min_cell))

        return replace(self._change(remove, most=SPENT), notes=tuple(notes))

    def review(self, last: PassRecord) -> PassRecord:
        """Add a proven bound, and the price of a smaller disparity, computed with a smaller lam."""
        with torch.no_grad():
            evening = self.evened()
        if evening is None or not len(evening.criterion.matrix):
            return last
        criterion = evening.criterion
        bound, further = 0.0, evening

        def look(proof: bool) -> None:
            nonlocal bound, further
            if proof:
                bound = proven_bound(evening)
            else:
                further = evened_further(evening)

        with torch.no_grad():  # the longer task first
            map_tasks(look, (False, True), threads=evening.problem.moments.threaded)
        here, there = (criterion.losses_of(one.after) for one in (evening, further))
        price = Price(
            largest=criterion.combine == "largest",
            mean=criterion.mean(here.losses),
            disparity=criterion.disparity(here.losses),
            counted=float(criterion.terms(here.losses, criterion.band(here)).sum()),
            lam=further.criterion.lam,
            mean_then=criterion.mean(there.losses),
            disparity_then=criterion.disparity(there.losses),
        )
        return replace(last, bound=bound, price=price)

    def logits(self, x: Tensor) -> Tensor:
        """Return scores divided by the temperature; −inf for classes that were not seen."""
        return super().logits(x) / self.temperature

    def _change(
        self, change: Callable[[GroupMoments], None], most: int = MOST, *, solve: bool = True
    ) -> PassRecord:
        """Change the moments, and solve again if requested."""
        if self.moments is None:
            raise UsageError("nothing was learned yet, so nothing can be removed; learn rows first")
        start = time.perf_counter()
        with torch.no_grad():
            change(self.moments)
            if self.moments.device.type == "cuda":
                torch.cuda.synchronize(self.moments.device)
            summed = time.perf_counter()
            record = self._refit(self.moments, most) if solve else UNSOLVED
        solved = time.perf_counter()
        return replace(record, summing=summed - start, solving=solved - summed)

    def _refit(self, moments: GroupMoments, most: int) -> PassRecord:
        """Choose penalty and weights, and set the head; return the record."""
        if self.settings.classifier in BY_MEANS:
            return self._by_class_means(moments)
        keys, groups, problem, criterion = self._posed(moments)
        classes, label = np.unique(groups.label, return_inverse=True)
        known = np.array([max(self.relative.get(key, 1.0), FEW) for key in keys])
        blocks = Blocks.of(criterion)
        start = blocks.weights(np.log(known))

        evening = self._evened(problem, criterion, start, most)
        self.chosen = evening.chosen
        relative = evening.after.weights / criterion.share
        self.relative = dict(zip(keys, relative.tolist(), strict=True))
        scores, head, kind = None, evening.after.head, self.settings.classifier
        if kind == "discriminants" or (kind == "auto" and blocks.are_within(label)):
            scores = discriminants(evening.problem, evening.after)
            head = scores.head(head)
        with one_thread():
            self.temperature = fit_temperature(
                evening.problem, evening.after, criterion.share, scores
            )
        self.net.show(classes, head)
        before, after = map(criterion.losses_of, (evening.before, evening.after))
        columns = (groups.size, relative, before.losses, after.losses, after.errors)
        return PassRecord(
            objective=evening.value,
            promise=evening.promise,
            chance=criterion.chance(evening.before),
            solved=evening.solved,
            ridge=self.ridge,
            temperature=self.temperature,
            groups=tuple(
                GroupChange(key[0], key[1:], *values)
                # By columns: temporary lists between numbers that are kept would fragment memory.
                for key, *values in zip(keys, *(each.tolist() for each in columns), strict=True)
            ),
        )

    def evened(self) -> Evening | None:
        """Solve again with the current weights; return None if there are none."""
        if self.moments is None or self.chosen is None:
            return None
        _, _, problem, criterion = self._posed(self.moments)
        return self.chosen.again(problem, criterion)

    def _posed(self, moments: GroupMoments) -> tuple[list[Key], Groups, RidgeProblem, Criterion]:
        """Return the groups in order, and the problem and criterion of their weights."""
        keys, group = grouped(moments, by_attribute=self.measure.by_attribute)
        groups = groups_of(moments, keys, group)
        _, label = np.unique(groups.label, return_inverse=True)
        problem = RidgeProblem(moments, group, label, self.ridge)
        return keys, groups, problem, self._criterion(groups, label)

    def _by_class_means(self, moments: GroupMoments) -> PassRecord:
        """Set the head of a classifier without group weights; return the record."""
        ridge = None if self.settings.ridge == "auto" else self.settings.ridge
        by_lda = self.settings.classifier == "lda"
        found = lda(moments, ridge) if by_lda else nearest_mean(moments)
        self.ridge, self.temperature = found.ridge, found.temperature
        self.net.show(found.classes, found.head)
        return PassRecord(found.loss, 0.0, 1, found.ridge, found.temperature, groups=())

    def _criterion(self, groups: Groups, label: Integers) -> Criterion:
        """Return the criterion of the weights; with fixed weights, no groups are compared."""
        kind = self.settings.group_weights
        known = np.flatnonzero((groups.attribute.reshape(len(groups), -1) >= 0).all(axis=1))
        compared = disparity_matrix(self.measure, groups.take(known))
        matrix = np.zeros((len(compared), len(groups)))
        matrix[:, known] = compared
        share = shares_of(groups, label, known)
        if kind == "class":
            share = groups.size / np.bincount(label, groups.size)[label] / (label.max() + 1)
        if kind == "samples":
            share = groups.size / groups.size.sum()
        return Criterion(
            matrix=matrix if kind == "fair" else matrix[:0],
            share=share,
            lam=self.lam,
            certainty=self.settings.certainty,
            left_out=self.settings.evened == "left-out",
            combine=self.measure.combine,
        )

    def _evened(
        self, problem: RidgeProblem, criterion: Criterion, start: Floats, most: int
    ) -> Evening:
        """Choose the weights and, with enough new rows, the penalty."""
        given, rows = self.settings.ridge, sum(problem.moments.count)
        penalties = penalties_for(problem.moments)
        if given != "auto":
            self.ridge = given
        elif not self.rows_at_choice:
            _, self.ridge = best_penalty(problem, criterion, start, penalties)
        evening = even_out(
            problem.with_ridge(self.ridge), criterion, start if self.relative else None, most=most
        )
        if given == "auto" and rows >= MUCH_MORE * self.rows_at_choice:
            self.rows_at_choice = rows
            self.ridge, evening = better_penalty(evening, self.ridge, penalties)
        return evening

    def _notes(self, train: Samples | None) -> tuple[str, ...]:
        """Return notes: moments are compressed, rows are copies, or inputs have another scale."""
        moments, plan, notes = self.moments, self.plan, []
        assert moments is not None
        if plan.rank is not None and not self.told_of_rank:
            self.told_of_rank = True
            exact = replace(plan, rank=None)
            notes.append(
                f"moments are compressed to {plan.rank} directions of each group, "
                f"{in_gib(plan.second)} instead of {in_gib(exact.second)}, so losses and "
                "evenness are approximate; `rank='full'` keeps all, which removing rows requires"
            )
        copies = moments.seen.copies
        if copies > MANY_COPIES and not self.told_of_copies:
            self.told_of_copies = True
            notes.append(
                f"{copies:.0%} of the rows so far are copies of other rows; then losses of "
                "left-out rows are too small, since the copies are not left out; remove the "
                "copies, unless each stands for a person or thing of its own"
            )
        known = train is None or self.noise is not None
        far = 0.0 if known or train is None else self.net.features.far(train.x)
        if far > ANOTHER_SCALE:
            notes.append(
                f"{far:.0%} of the input values are farther from those of the first task than any "
                "value there; if they have other units, convert them"
            )
        return tuple(notes)

    def _features(self, train: Samples) -> FeatureMap:
        kind, generator, place = self.settings.features, self.generators.method, self._place(train)
        if kind == "raw":
            return Raw(train.x, place)
        if kind == "trained":
            return Trained(train.x, self.net, self.plan.width, generator)
        if kind != "patches":
            inputs = kind == "both"
            return RandomRelu(train.x, self.plan.width, generator, inputs=inputs, device=place)
        if self.image is None:
            raise UsageError(
                "`features=patches` needs images, and this data is not known to be images; choose "
                "`features=relu`"
            )
        return Patches(train.x, self.image, Patches.filters_for(self.plan.width), generator)

    def _planned(self, train: Samples) -> Plan:
        """Choose the numbers of features and directions; raise an error if they do not fit."""
        kind, inputs = self.settings.features, train.x[0].numel()
        keys, _ = unique_rows(train.keys().to(self._place(train)))
        values = {tuple(key[1:]) for key in keys.tolist()}
        width = wanted = None if self.settings.width == "auto" else self.settings.width
        if kind == "raw":
            width = wanted = inputs + 1
        elif width is None and kind == "patches":
            width = Patches.width_for(FILTERS)
        elif width is None:
            beside = {"both": inputs, "trained": last_linear(self.net).in_features}.get(kind, 0)
            width = min(max(len(train), NARROWEST), WIDEST) + beside
        plan = Plan(width, self.classes * len(values), getattr(torch, self.settings.arithmetic))
        rank = self.settings.rank
        if self.settings.noise_epsilon != "none":
            if rank not in ("auto", "full"):
                raise UsageError(
                    f"`rank={rank}` compresses sums, and noise is for exact ones; choose "
                    "`rank='full'`, and a smaller `width` if they do not fit"
                )
            rank = "full"
        return plan.made_to_fit(rank, free_memory(self._place(train)), fixed=wanted is not None)
