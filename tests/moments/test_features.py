from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from faircil.errors import DataError, UsageError
from faircil.moments.features import FARTHEST, RandomRelu, Raw, Standardise
from faircil.moments.patches import Patches

SHAPE = (2, 12, 10)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 40, seed: int = 0) -> Tensor:
    return torch.rand(n, 2 * 12 * 10, generator=generator(seed))


def maps(x: Tensor, seed: int = 0) -> dict[str, nn.Module]:
    return {
        "raw": Raw(x),
        "relu": RandomRelu(x, 50, generator(seed)),
        "both": RandomRelu(x, 300, generator(seed), inputs=True),
        "patches": Patches(x, SHAPE, 3, generator(seed)),
    }


@pytest.mark.parametrize("name", ["raw", "relu", "both", "patches"])
def test_a_map_is_fixed_finite_and_ends_with_a_constant(name: str) -> None:
    x = images()
    features = maps(x)[name]
    found = features(x)
    assert found.shape == (len(x), features.width)
    assert torch.isfinite(found).all()
    assert (found[:, -1] == 1).all()
    torch.testing.assert_close(features(x[7:9]), found[7:9], rtol=1e-5, atol=1e-5)
    assert torch.equal(maps(x)[name](x), found)
    assert features(x[:0]).shape == (0, features.width)
    if name != "raw":
        assert not torch.equal(maps(x, seed=1)[name](x), found)


def test_inputs_that_hardly_vary_at_first_count_later_and_not_too_much() -> None:
    x = torch.randn(100, 4, generator=generator())
    x[:, 1] = 2.0
    x[:, 2] = 1e-4 * x[:, 2]
    standardise = Standardise(x)
    later = x.clone()
    later[:, 1:3] += 0.25
    found = standardise(later)
    # A tenth of the usual deviation, here about .7, is their unit.
    assert 2 < found[:, 1].mean() < FARTHEST
    assert found.abs().max() <= FARTHEST


def test_values_far_away_are_moderate_and_keep_their_order() -> None:
    standardise = Standardise(torch.tensor([[-1.0], [1.0]]))  # mean 0, deviation 1
    x = torch.tensor([-1e6, -6.0, -5.0, 0.5, 5.0, 6.0, 12.0, 1e6])
    found = standardise(x[:, None]).flatten()
    assert (found.diff() > 0).all()
    assert found.abs().max() < 20
    expected = torch.tensor([-5 - math.log(2), -5.0, 0.5, 5.0, 5 + math.log(2), 5 + math.log(8)])
    torch.testing.assert_close(found[1:-1], expected)


def test_constant_inputs_give_finite_features() -> None:
    x = torch.full((5, 6), 3.0)
    assert torch.isfinite(Raw(x)(x)).all()
    assert torch.isfinite(RandomRelu(x, 9, generator())(2 * x)).all()


def test_inputs_on_another_scale_are_noticed() -> None:
    x = torch.randn(100, 4, generator=generator())
    standardise = Standardise(x)
    assert standardise.far(x) == 0
    assert standardise.far(100 * x) > 0.9
    assert standardise.far(x[:0]) == 0


def test_patches_see_a_shape_wherever_it_stands_in_a_field() -> None:
    base = torch.zeros(2, 1, 16, 16)
    base[0, 0, 2:6, 3] = 1  # an upright stroke, and the same one pixel to the right
    base[1, 0, 2:6, 4] = 1
    lying = torch.zeros(1, 1, 16, 16)
    lying[0, 0, 4, 2:6] = 1
    fitted = torch.cat([base, lying]).repeat(30, 1, 1, 1).flatten(1)
    fitted = fitted + 0.01 * torch.rand(fitted.shape, generator=generator())
    features = Patches(fitted, (1, 16, 16), 20, generator())
    one, moved, other = features(torch.cat([base, lying]).flatten(1))
    assert (one - moved).norm() < (one - other).norm()


def test_a_width_without_room_and_plain_images_are_mistakes() -> None:
    x = images()
    with pytest.raises(UsageError, match=r"`width=100` leaves no room .* at least 242"):
        RandomRelu(x, 100, generator(), inputs=True)
    with pytest.raises(DataError, match=r"no patch of them has any contrast.*relu"):
        Patches(torch.ones(20, 240), SHAPE, 3, generator())


def test_filters_fill_a_width() -> None:
    assert [Patches.filters_for(width) for width in (1, 33, 64, 65, 3201)] == [1, 1, 1, 2, 100]


def test_flags_are_gathered_whatever_their_value() -> None:
    draw = generator()
    numbers = torch.randn(300, 3, generator=draw)
    often = torch.randint(0, 2, (300, 1), generator=draw).float()
    category = nn.functional.one_hot(torch.randint(0, 40, (300,), generator=draw), 40).float()
    x = torch.cat([numbers[:, :2], category, often, numbers[:, 2:]], dim=1)
    features = RandomRelu(x, 50, draw)
    assert features.order[: features.numbers].tolist() == [0, 1, 42, 43]
    later = x[:20].clone()
    later[0, 2:42] = 0  # no category
    later[1, 2:42] = torch.linspace(-3, 100, 40)  # no flags at all
    z = features.standardise(later)[:, features.order]
    size = z.abs() @ features.weight.abs() + features.bias.abs()
    # Each of some fifty terms is rounded once when it is made and once when it is added.
    allowed = 2 * (x.shape[1] + 2) * torch.finfo(torch.float32).eps * size
    expected = torch.addmm(features.bias, z, features.weight).relu()
    assert ((features(later) - expected).abs() <= allowed).all()
    torch.testing.assert_close(features(later)[5:9], features(later[5:9]))
    assert features(later[:0]).shape == (0, 50)


def test_too_few_flags_are_multiplied_like_other_inputs() -> None:
    x = nn.functional.one_hot(torch.arange(300) % 20, 20).float()
    features = RandomRelu(x, 30, generator())
    assert features.numbers == 20
