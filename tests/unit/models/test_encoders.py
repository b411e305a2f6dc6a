"""Observations to features: vectors, images in either layout, and dicts of both."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rl_training.config import ModelConfig
from rl_training.models.encoders import IMAGE_FEATURES, NatureCNN, make_encoder
from rl_training.specs import Leaf, ObsSpec

MODEL = ModelConfig()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def single(shape: tuple[int, ...], dtype: str = "float32") -> ObsSpec:
    return ObsSpec((Leaf("", shape, dtype),))


def pixels(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def test_vectors_pass_and_arrays_are_flattened() -> None:
    encoder, size = make_encoder(single((5,)), MODEL)
    obs = torch.randn(3, 5)
    assert size == 5 and torch.equal(encoder(obs), obs)
    encoder, size = make_encoder(single((2, 3)), MODEL)
    obs = torch.randn(4, 2, 3)
    assert size == 6 and torch.equal(encoder(obs), obs.reshape(4, 6))
    encoder, size = make_encoder(single(()), MODEL)
    assert size == 1 and encoder(torch.randn(4)).shape == (4, 1)


@pytest.mark.parametrize("shape", [(4, 84, 84), (84, 84, 4), (96, 96, 3), (3, 64, 64), (1, 36, 36), (10, 10, 4), (7, 7, 3)])
def test_images_become_512_features(shape: tuple[int, ...]) -> None:
    encoder, size = make_encoder(single(shape, "uint8"), MODEL)
    features = encoder(pixels(2, *shape))
    assert size == IMAGE_FEATURES == 512 and features.shape == (2, 512)
    assert features.min() >= 0, "the last layer has a ReLU"


def test_the_nature_network_has_its_published_layers() -> None:
    convs = [m for m in NatureCNN((4, 84, 84), "orthogonal") if isinstance(m, nn.Conv2d)]
    assert [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in convs] == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    (linear,) = (m for m in NatureCNN((4, 84, 84), "orthogonal") if isinstance(m, nn.Linear))
    assert (linear.in_features, linear.out_features) == (64 * 7 * 7, 512)
    small = [m for m in NatureCNN((4, 10, 10), "orthogonal") if isinstance(m, nn.Conv2d)]
    assert [c.kernel_size[0] for c in small] == [3, 3]
    weight = convs[0].weight.flatten(1)
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(32), atol=1e-4, rtol=0)
    assert all(c.bias.abs().sum() == 0 for c in convs)


def test_pixels_are_scaled_to_one_inside_the_network() -> None:
    net = NatureCNN((4, 84, 84), "orthogonal")
    seen: list[torch.Tensor] = []
    first = next(m for m in net if isinstance(m, nn.Conv2d))
    first.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    net(torch.full((1, 4, 84, 84), 255, dtype=torch.uint8))
    net(torch.zeros((1, 4, 84, 84), dtype=torch.uint8))
    assert seen[0].dtype == torch.float32
    assert (seen[0].min().item(), seen[0].max().item(), seen[1].abs().max().item()) == (1.0, 1.0, 0.0)


def test_both_layouts_of_an_image_give_the_same_features() -> None:
    first, last = NatureCNN((3, 40, 48), "orthogonal"), NatureCNN((40, 48, 3), "orthogonal")
    for mine, theirs in zip(last.parameters(), first.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    image = pixels(2, 3, 40, 48)
    torch.testing.assert_close(last(image.permute(0, 2, 3, 1)), first(image))


def test_images_can_be_taken_flat() -> None:
    encoder, size = make_encoder(single((1, 4, 4), "uint8"), ModelConfig(encoder="flat"))
    image = pixels(3, 1, 4, 4)
    assert size == 16
    torch.testing.assert_close(encoder(image), image.flatten(1) / 255.0)


def test_a_dict_is_encoded_leaf_by_leaf_in_the_order_of_the_spec() -> None:
    spec = ObsSpec((Leaf("z.1", (2,), "float32"), Leaf("camera", (3, 12, 12), "uint8"), Leaf("a", (2, 2), "float32")))
    encoder, size = make_encoder(spec, MODEL)
    obs = {"a": torch.randn(5, 2, 2), "camera": pixels(5, 3, 12, 12), "z.1": torch.randn(5, 2)}
    features = encoder(obs)
    assert features.shape == (5, size) and size == 2 + 512 + 4
    assert torch.equal(features[:, :2], obs["z.1"])
    assert torch.equal(features[:, -4:], obs["a"].flatten(1))
    assert features[:, 2:-4].abs().sum() > 0


def test_a_dict_of_one_leaf_is_a_dict() -> None:
    encoder, size = make_encoder(ObsSpec((Leaf("only", (3,), "float32"),)), MODEL)
    obs = torch.randn(2, 3)
    assert size == 3 and torch.equal(encoder({"only": obs}), obs)
