from __future__ import annotations

import torch
from torch import Tensor, nn

from faircil.learners.replay import fit_classifier
from faircil.nets import build_mlp
from faircil.samples import Samples
from learning import parameters, random_samples


def mean_loss(classifier: nn.Module, samples: Samples) -> Tensor:
    """One sample at a time."""
    total = torch.zeros(())
    for x, y in zip(samples.x, samples.y, strict=True):
        total = total - torch.log_softmax(classifier(x[None])[0], dim=0)[y]
    return total / len(samples)


def fitted(current: Samples, memory: Samples | None, hidden: tuple[int, ...] = ()) -> nn.Module:
    classifier = build_mlp(6, 5, hidden, seed=0)
    generator = torch.Generator().manual_seed(0)
    fit_classifier(classifier, current, memory, generator, lr=0.03, tau=2.0, passes=100)
    return classifier


def test_passes_are_steps_of_adam_over_task_and_buffer() -> None:
    current, memory = random_samples(40), random_samples(30, seed=1)
    classifier = build_mlp(6, 5, (), seed=0)
    adam = torch.optim.Adam(classifier.parameters(), 0.03)
    for _ in range(100):  # both fit in one batch: their order does not matter
        adam.zero_grad()
        (mean_loss(classifier, current) + 2 * mean_loss(classifier, memory)).backward()  # type: ignore[no-untyped-call]
        adam.step()
    torch.testing.assert_close(
        parameters(fitted(current, memory)), parameters(classifier), rtol=1e-3, atol=1e-3
    )


def test_the_buffer_keeps_old_classes_readable() -> None:
    both = random_samples(300, 2)
    both.x[:, 0] += 6.0 * both.y
    old, new = both.take(both.y == 0), both.take(both.y == 1)
    assert (fitted(new, None)(old.x).argmax(dim=1) == 1).float().mean() > 0.5
    assert (fitted(new, old.take(slice(32)))(old.x).argmax(dim=1) == 0).float().mean() > 0.9


def test_an_mlp_reads_two_subspaces_and_a_linear_layer_cannot() -> None:
    generator = torch.Generator().manual_seed(0)
    subspace = torch.randint(2, (256,), generator=generator)
    features = 2 * torch.randn(256, 6, generator=generator)
    features[:, :3] *= subspace[:, None]
    features[:, 3:] *= 1 - subspace[:, None]
    samples = Samples(features, subspace)

    def errors(hidden: tuple[int, ...]) -> float:
        predicted = fitted(samples, None, hidden)(features).argmax(dim=1)
        return (predicted != subspace).float().mean().item()

    assert errors(()) > 0.25
    assert errors((6,)) < 0.1
