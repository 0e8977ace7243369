"""The state of a run: its initial state, and what it carries from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.cache import EmbeddingProgress
from faircil.compute import Generators
from faircil.data.datasets import load_dataset
from faircil.data.mapped import load_table
from faircil.data.own import read_own
from faircil.data.splits import small_groups, validation_stream
from faircil.data.stream import TaskStream
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.learners import LEARNERS, Learner, Material
from faircil.media import encoded, item_vectors
from faircil.metrics import TaskMetrics
from faircil.nets import build_conv, build_mlp, traits_of
from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.record import EpochRecord, Predictions, Seconds, WeightRecord
from faircil.runs.config import RunConfig, check_data, default_measure
from faircil.samples import Samples, group_counts
from faircil.text.encoders import kept_encoder
from faircil.text.text_net import TextNet
from faircil.vision.backbones import build_resnet18
from faircil.weighting.measures import Measure, find_measure
from faircil.weighting.selection import Selection
from faircil.weighting.solver import try_solver


@dataclass
class AveragedNet:
    """The mean of a net's parameters over steps, and of the statistics of its normalisations.

    Parameters
    ----------
    parameters : list of Tensor
        Their means.
    steps : int
        Number of steps averaged.
    """

    parameters: list[Tensor]
    steps: int = 0

    @classmethod
    def of(cls, net: nn.Module) -> AveragedNet:
        """Start without any steps."""
        return cls([torch.zeros_like(parameter) for parameter in _averaged(net)])

    @torch.no_grad()
    def add(self, net: nn.Module) -> None:
        """Add the current parameters to the mean."""
        self.steps += 1
        torch._foreach_lerp_(self.parameters, _averaged(net), 1 / self.steps)

    @torch.no_grad()
    def show(self, net: nn.Module) -> None:
        """Set the net's parameters to their means."""
        if self.steps:
            for parameter, mean in zip(_averaged(net), self.parameters, strict=True):
                parameter.copy_(mean)


def _averaged(net: nn.Module) -> list[Tensor]:
    """Return parameters and statistics; those of the averaged net are close to their average."""
    return [*net.parameters(), *(each for each in net.buffers() if each.is_floating_point())]


@dataclass
class EpochInProgress:
    """An epoch that has started but not ended.

    Parameters
    ----------
    selection : Selection
        Its training samples, in order.
    weights : Tensor, shape (n,), or None
        Weights of the samples of the task; None: all 1.
    record : WeightRecord or None
        Record of these weights.
    tokens : int or None
        Tokens used in training before.
    steps : int
        Completed steps.
    seconds : float
        Duration of these steps.
    """

    selection: Selection
    weights: Tensor | None
    record: WeightRecord | None
    tokens: int | None
    steps: int = 0
    seconds: float = 0.0


@dataclass
class TaskInProgress:
    """A task that has started but not ended.

    Parameters
    ----------
    material : Material
        The data from which its steps draw.
    replay : ReplayBatches or None
        Batches of the memory, at their current position.
    epoch : int
        Completed epochs.
    weights : Tensor, shape (n,), or None
        Weights of the last epoch.
    average : AveragedNet or None
        Average over the steps of its last epochs so far.
    begun : EpochInProgress or None
        None between two epochs.
    """

    material: Material
    replay: ReplayBatches | None
    epoch: int = 0
    weights: Tensor | None = None
    average: AveragedNet | None = None
    begun: EpochInProgress | None = None

    def averaging(self, net: nn.Module, first: int) -> Callable[[], None]:
        """Return a function to call after each step: it averages parameters from ``first`` on."""
        if self.epoch < first:
            return lambda: None
        average = self.average = self.average or AveragedNet.of(net)
        return lambda: average.add(net)

    def show_average(self, net: nn.Module) -> None:
        """Set the trained net to its averaged parameters, if there are any, once."""
        if self.average is not None:
            self.average.show(net)
            self.average = None


@dataclass
class RunState:
    """The learner with everything that it has seen, and all measurements so far.

    Parameters
    ----------
    learner : Learner
    buffer : ReplayBuffer
    generators : Generators
    task : TaskInProgress or None
        None between two tasks.
    tasks : int
        Number of tasks learned.
    seen : dict
        ``{(y,): n}`` or ``{(y, z): n}``, training samples of the tasks so far.
    held_out : list of Samples
        Samples of each task so far that are never trained on; empty if none are held out.
    per_task, predictions, epochs, notes, probabilities : list
        As in :class:`faircil.results.record.RunResult`.
    eval_seconds, total_seconds : float
        Wall time of the evaluations, and of everything.
    """

    learner: Learner
    buffer: ReplayBuffer
    generators: Generators
    task: TaskInProgress | None = None
    tasks: int = 0
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)
    held_out: list[Samples] = field(default_factory=list)
    per_task: list[TaskMetrics] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    probabilities: list[TaskProbabilities] = field(default_factory=list)
    eval_seconds: float = 0.0
    total_seconds: float = 0.0

    def begin_task(self, train: Samples, memory_batch_size: int) -> TaskInProgress:
        """Count the samples seen, and let the learner choose its training data."""
        train, notes = self.learner.admitted(train)
        self.notes += [f"task {self.tasks + 1}: {note}" for note in notes]
        for key, count in group_counts(train).items():
            self.seen[key] = self.seen.get(key, 0) + count
        material = self.learner.begin_task(train, self.buffer)
        replay = None
        if material.memory is not None:
            replay = ReplayBatches(material.memory, memory_batch_size, self.generators.memory)
        self.task = TaskInProgress(material, replay)
        return self.task

    @property
    def place(self) -> str:
        """Current position, for messages."""
        if self.task is None:
            return f"after task {self.tasks}"
        begun = self.task.begun
        steps = "" if begun is None else f" and {begun.steps} steps"
        return f"in task {self.tasks + 1}, after epoch {self.task.epoch}{steps}"

    def history(self) -> Iterator[EpochRecord | TaskMetrics]:
        """Yield all epochs and evaluations so far, in order."""
        for number in range(1, len(self.per_task) + 2):
            yield from (epoch for epoch in self.epochs if epoch.task == number)
            yield from self.per_task[number - 1 : number]

    def seconds(self) -> Seconds:
        """Split the wall time of the run."""
        weights = [epoch.weights for epoch in self.epochs if epoch.weights]
        return Seconds(
            gradient=sum(record.gradient for record in weights),
            lp=sum(record.lp for record in weights),
            train=sum(epoch.train for epoch in self.epochs),
            eval=self.eval_seconds,
            total=self.total_seconds,
        )


def load_stream(
    config: RunConfig,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> TaskStream:
    """Load the data of a run as inputs of a net.

    Texts become tokens or embeddings, images embeddings or pixels; new embeddings are computed on
    the device, with calls of ``progress``.
    """
    stream, media = read_stream(config, seed), config.settings.media
    if media is None:
        return stream
    column = None if config.own is None else config.own.items
    return encoded(stream, media, column=column, device=device, progress=progress)


def embed_images_of(
    config: RunConfig,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> None:
    """Embed all images of the user's data, if there are any, regardless of which a run uses.

    All unusable images are then reported at once, before any run, and the following runs find the
    others in the cache.
    """
    own, options = config.own, config.images
    if own is not None and own.images is not None and options is not None:
        files = own.files(read_own(own).table[own.images])
        item_vectors(files, options, device=device, progress=progress)


def read_stream(config: RunConfig, seed: int) -> TaskStream:
    """Read the data of a run, without encoding texts and images.

    For an evaluation on validation data, held-out training data replaces the test data.
    """
    if config.own is not None:
        stream = load_table(config.own, seed)
        check_data(config)  # after reading, since it may have been replaced in the meantime
        if config.images is not None:
            stream = replace(stream, image=config.images.image)
    else:
        stream = load_dataset(
            config.dataset,
            seed,
            shuffle_classes=config.settings.data.class_order == "shuffled",
            classes_per_task=config.settings.data.classes_per_task,
        )
    if config.evaluate_on == "validation":
        stream = validation_stream(stream, seed)
    return stream


@dataclass(frozen=True)
class DataShape:
    """What a learner needs to know about the data before its first task.

    Parameters
    ----------
    name : str
        Name of the data, for messages.
    inputs : int
        Number of inputs of a sample.
    class_names : tuple of str
        Classes known so far.
    image : tuple of int or None
        Channels, height and width, if inputs are images.
    """

    name: str
    inputs: int
    class_names: tuple[str, ...]
    image: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, stream: TaskStream) -> DataShape:
        """Return the shape of a stream; its first sample gives the number of inputs."""
        inputs = stream.tasks[0].train.x[0].numel()
        return cls(stream.name, inputs, stream.class_names, stream.image)


ANY_ORDER = (
    "a large net is trained on a GPU, which adds up gradients in any order: another run of the "
    "same seed may differ in the last bits"
)


def start_run(config: RunConfig, seed: int, stream: TaskStream, device: torch.device) -> RunState:
    """Create the state of a run before its first task, with notes on its data.

    Parameters
    ----------
    config : RunConfig
    seed : int
    stream : TaskStream
    device : torch.device
        Device of the net.

    Raises
    ------
    SolverError
        If the run needs a solver that cannot be used; else this would only show after the first
        task.
    """
    if config.weighting != "none" and config.settings.weights.solver != "auto":
        try_solver(config.settings.weights.solver)
    state = new_state(config, seed, DataShape.of(stream), device)
    quota = config.settings.training.buffer_size if LEARNERS[config.method].replays else 0
    state.notes[:0] = [*stream.notes, *small_groups(stream, quota)]
    if device.type != "cpu" and traits_of(state.learner.net).large:
        state.notes.append(ANY_ORDER)
    return state


def new_state(config: RunConfig, seed: int, shape: DataShape, device: torch.device) -> RunState:
    """Create an untrained learner.

    Parameters
    ----------
    config : RunConfig
    seed : int
    shape : DataShape
    device : torch.device
        Device of the net.
    """
    settings = config.settings
    generators = Generators.from_seed(seed)
    net = _build_net(config, shape, generators.init_seed).to(device)
    learner = LEARNERS[config.method](net, settings.learner, generators)
    learner.measure, learner.lam = measure_of(config, shape.class_names), settings.weights.lam
    learner.image = shape.image
    return RunState(
        learner,
        ReplayBuffer(settings.training.buffer_size),
        generators,
        notes=_measure_notes(config, learner),
    )


def measure_of(config: RunConfig, class_names: Sequence[str]) -> Measure:
    """Return the measure of a run, with its favoured classes as numbers."""
    measure = find_measure(config.measure)
    if not measure.needs_favoured:
        return measure
    number = {name: label for label, name in enumerate(class_names)}
    unknown = [name for name in config.favoured if name not in number]
    raise_all([unknown_name("class", name, number) for name in unknown])
    return measure.favouring([number[name] for name in config.favoured])


def _measure_notes(config: RunConfig, learner: Learner) -> list[str]:
    """Return a note if the method has its own criterion, but the user set another measure."""
    asked = config.measure != default_measure(config.dataset, config.own)
    if not asked or learner.follows is None or config.measure in learner.follows:
        return []
    follows = f" (it can follow {' or '.join(learner.follows)})" if learner.follows else ""
    return [
        f"method '{config.method}' has a fairness criterion of its own and does not follow measure "
        f"'{config.measure}'{follows}: the measure changes what is reported, not the training"
    ]


def _build_net(config: RunConfig, shape: DataShape, seed: int) -> nn.Module:
    """Build the net of a run: an MLP, a net for images, or the encoder of its texts."""
    text = config.text
    if text is not None and text.finetune:
        return TextNet(
            kept_encoder(text.encoder),
            len(shape.class_names),
            seed=seed,
            pooling=text.pool,
            token_budget=text.token_budget,
            precision=text.precision,
            trainable_layers=text.trainable_layers,
        )
    training = config.settings.training
    if training.net == "mlp":
        return build_mlp(shape.inputs, len(shape.class_names), training.hidden, seed)
    if shape.image is None:
        raise UsageError(
            f"`net={training.net}` is for images, and the data '{shape.name}' is not known to be "
            "images; use `net=mlp`, or a dataset of images"
        )
    if training.net == "resnet18":
        return build_resnet18(shape.image, len(shape.class_names), seed)
    return build_conv(shape.image, len(shape.class_names), training.hidden, seed)
