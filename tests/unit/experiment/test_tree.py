"""State trees survive JSON and safetensors exactly."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rl_training.experiment.tree import arrays_from_bytes, arrays_to_bytes, join, split, to_json
from rl_training.state import ChunkedArray

DTYPES = ["bool", "uint8", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]


def round_trip(tree: Any) -> Any:
    document, arrays, chunked = split(tree)
    return join(json.loads(to_json(document)), arrays_from_bytes(arrays_to_bytes(arrays)), chunked)


def assert_same(a: Any, b: Any, path: str = "") -> None:
    """Equal in type, shape, dtype and every bit."""
    assert type(a) is type(b), (path, type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), path
        for index, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{path}/{index}")
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, path
        bits = (x.view(torch.int16) if x.dtype == torch.bfloat16 else x for x in (a, b))
        assert_same(*(x.numpy() for x in bits), path)
    elif isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), (path, a, b)
    elif isinstance(a, float) and math.isnan(a):
        assert math.isnan(b), path
    else:
        assert a == b and repr(a) == repr(b), (path, a, b)


arrays = st.sampled_from(DTYPES).flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)))
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | arrays
    | arrays.filter(lambda a: a.dtype not in (np.uint64,)).map(lambda a: torch.from_numpy(a.copy()))
    | st.sampled_from([np.float64(0.1), np.float32(-0.0), np.int64(7), np.bool_(True)])
    | st.floats(width=32).map(lambda x: torch.tensor(x, dtype=torch.bfloat16))
)
keys = st.text(max_size=3) | st.sampled_from(["$", "$array", "$$tensor", "$float", "a/b", "a", "~1", "~", ""])
trees = st.recursive(leaves, lambda t: st.lists(t, max_size=3) | st.dictionaries(keys, t, max_size=3), max_leaves=8)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(trees)
def test_any_tree_survives_exactly(tree: Any) -> None:
    assert_same(tree, round_trip(tree))


def test_random_states_survive_and_continue_the_same() -> None:
    generator, plain, torch_generator = np.random.default_rng(3), random.Random(3), torch.Generator().manual_seed(3)
    version, words, gauss = plain.getstate()
    python = [version, list(words), gauss]
    tree = {"numpy": generator.bit_generator.state, "python": python, "torch": torch_generator.get_state()}
    state = round_trip(tree)
    expected = (generator.random(), plain.random(), torch.rand(1, generator=torch_generator).item())
    other, other_plain, other_torch = np.random.default_rng(0), random.Random(0), torch.Generator()
    other.bit_generator.state = state["numpy"]
    other_plain.setstate((state["python"][0], tuple(state["python"][1]), state["python"][2]))
    other_torch.set_state(state["torch"])
    assert (other.random(), other_plain.random(), torch.rand(1, generator=other_torch).item()) == expected


def test_json_is_strict_and_arrays_can_be_written_to() -> None:
    document, flat, _ = split({"x": math.inf, "a": np.arange(3)})
    assert to_json(document) == b'{"x":{"$float":"inf"},"a":{"$array":"/a"}}'
    loaded = arrays_from_bytes(arrays_to_bytes(flat))["/a"]
    loaded[0] = 9
    assert loaded.tolist() == [9, 1, 2]


def test_views_and_parameters_are_stored_by_value() -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    tree = {"t": base.T, "strided": base[::2, 1], "p": torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).T)}
    loaded = round_trip(tree)
    assert np.array_equal(loaded["t"], base.T) and np.array_equal(loaded["strided"], base[::2, 1])
    assert type(loaded["p"]) is torch.Tensor and torch.equal(loaded["p"], tree["p"].detach())


def test_chunked_arrays_pass_beside_the_arrays() -> None:
    chunked = ChunkedArray("obs", [np.zeros(2), np.ones(1)], [4, 5])
    document, flat, found = split({"buffer": {"obs": chunked}})
    assert flat == {} and found == {"/buffer/obs": chunked}
    assert join(document, {}, found)["buffer"]["obs"] is chunked


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"a": {"b": object()}}, "/a/b"),
        ({"a": [1, (2, 3)]}, "/a/1"),
        ({"a": {3: 1}}, "/a"),
        ({"a": np.array(["text"])}, "/a"),
        ({"a": np.array([object()])}, "/a"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "/a"),
        ({"a": ChunkedArray("x", [np.zeros(1)], [])}, "/a"),
    ],
)
def test_what_cannot_be_saved_is_named(bad: Any, path: str) -> None:
    with pytest.raises(TypeError, match=f"state{path}:"):
        split(bad)


@pytest.mark.parametrize(
    "document",
    [{"$array": "/gone"}, {"$unknown": "/a"}, {"$float": "1.0"}, {"$array": ["x"]}, {"$array": "/a", "b": 1}, {}],
)
def test_pieces_that_do_not_fit_are_refused(document: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        join(document, {"/a": np.zeros(1)}, {})
