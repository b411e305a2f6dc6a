"""One form of experience: the same valid transitions in every autoreset mode, and true successors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from rl_training.envs import EnvAdapter, make_vector_env
from rl_training.envs.factory import EnvMaker
from rl_training.envs.spaces import action_translator
from rl_training.errors import ConfigError, EnvError
from rl_training.testing import Mixed, Noisy, OneState

BACKENDS = ["lean", "sync same", "sync next", "sync disabled", "async", "async next", "async disabled"]
MODES = {"same": AutoresetMode.SAME_STEP, "next": AutoresetMode.NEXT_STEP, "disabled": AutoresetMode.DISABLED}


def config(env_id: Any, backend: str = "sync", num_envs: int = 2, **kwargs: Any) -> Any:
    return SimpleNamespace(env_id=env_id, env=SimpleNamespace(num_envs=num_envs, backend=backend, kwargs=kwargs))


def build(env_id: Any, backend: str, num_envs: int) -> VectorEnv:
    if backend in ("lean", "async", "native"):
        return make_vector_env(config(env_id, "sync" if backend == "lean" else backend), num_envs, copy=False)
    kind, mode = backend.split()
    cls = SyncVectorEnv if kind == "sync" else AsyncVectorEnv
    return cls([EnvMaker(env_id, {})] * num_envs, copy=False, autoreset_mode=MODES[mode])


def rows(env_id: Any, backend: str, count: int, num_envs: int = 2) -> list[list[Any]]:
    """The first `count` valid transitions of every sub-environment; its k-th one always takes the same action."""
    adapter = EnvAdapter(build(env_id, backend, num_envs))
    rng = np.random.default_rng(1)
    actions = [adapter.sample_actions(rng) for _ in range(count)]
    spec = adapter.obs_spec
    found: list[list[Any]] = [[] for _ in range(num_envs)]
    try:
        obs = [a.copy() for a in spec.arrays(adapter.reset(seed=3))]
        while min(map(len, found)) < count:
            taken = np.stack([actions[min(len(found[i]), count - 1)][i] for i in range(num_envs)])
            result = adapter.step(taken)
            for i in range(num_envs):
                if result.valid is None or result.valid[i]:
                    after = [a[i].tolist() for a in spec.arrays(result.next_obs)]
                    flags = [float(result.reward[i]), bool(result.terminated[i]), bool(result.truncated[i])]
                    found[i].append(([a[i].tolist() for a in obs], taken[i].tolist(), *flags, after))
            obs = [a.copy() for a in spec.arrays(result.obs)]
    finally:
        adapter.close()
    return [one[:count] for one in found]


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", OneState, Mixed, Noisy], ids=["cartpole", "onestate", "mixed", "noisy"]
)
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_every_mode_gives_the_same_valid_transitions(env_id: Any, backend: str) -> None:
    expected, got = rows(env_id, "lean", 60), rows(env_id, backend, 60)
    ends = sum(step[3] or step[4] for step in expected[0])
    assert ends >= 1, f"no episode ended in {len(expected[0])} steps: the test would prove nothing"
    for index in range(2):
        assert got[index] == expected[index], f"{backend} differs in env {index}"


def test_native_gives_the_same_transitions() -> None:
    pytest.importorskip("rl_training.envs.native")
    assert rows("CartPole-v1", "native", 60) == rows("CartPole-v1", "lean", 60)


@pytest.mark.parametrize("backend", BACKENDS)
def test_truncation_keeps_its_true_successor(backend: str) -> None:
    for step, (obs, _, reward, terminated, truncated, after) in enumerate(rows(OneState, backend, 25)[0]):
        at = step % 10
        expected = ([[at]], 1.0, False, at == 9, [[at + 1]])
        assert (obs, reward, terminated, truncated, after) == expected, f"step {step}: {obs} -> {after}"


def test_next_obs_is_obs_while_nothing_ends() -> None:
    adapter = EnvAdapter(make_vector_env(config(OneState)))
    adapter.reset(seed=0)
    ended = [step.next_obs is not step.obs for step in (adapter.step(np.zeros(2, np.int64)) for _ in range(10))]
    assert ended == [False] * 9 + [True]


def test_the_fake_row_of_next_step_mode_is_not_valid() -> None:
    adapter = EnvAdapter(build(OneState, "sync next", 2))
    adapter.reset(seed=0)
    valid = [adapter.step(np.zeros(2, np.int64)).valid for _ in range(12)]
    assert [v is None for v in valid] == [True] * 10 + [False, True], valid
    assert valid[10] is not None and not valid[10].any()


def test_nested_observations_become_a_flat_dict() -> None:
    adapter = EnvAdapter(make_vector_env(config(Mixed)))
    obs = adapter.reset(seed=0)
    shapes = {key: (array.shape, str(array.dtype)) for key, array in obs.items()}
    assert shapes == {
        "at.0": ((2, 2), "float32"),
        "at.1": ((2,), "float32"),
        "kind": ((2, 3), "float32"),
        "many": ((2, 5), "float32"),
        "on": ((2, 2), "float32"),
    }
    obs = adapter.step(np.array([0, 2])).obs
    assert obs["kind"].tolist() == [[0, 1, 0]] * 2, "kind 2 of {1, 2, 3} after one step"
    assert obs["many"].tolist() == [[0, 1, 0, 1, 0]] * 2, "(1, 1) of sizes (2, 3)"


def box(low: Any, high: Any, shape: tuple[int, ...] | None = None, dtype: Any = np.float32) -> gym.spaces.Box:
    return gym.spaces.Box(np.array(low, dtype), np.array(high, dtype), shape, dtype)


@pytest.mark.parametrize(
    ("space", "canonical", "expected"),
    [
        (box([-2.0, 0.0], [2.0, 10.0]), [[-1.0, 0.0], [3.0, -9.0]], [[-2.0, 5.0], [2.0, 0.0]]),
        (box([-np.inf, 0.0], [np.inf, 4.0]), [[7.0, 1.0]], [[7.0, 4.0]]),
        (box([-np.inf], [1.0]), [[3.0]], [[1.0]]),
        (box([[0.0], [0.0]], [[2.0], [4.0]], dtype=np.float64), [[0.5, -0.5]], [[[1.5], [1.0]]]),
        (box([0], [9], dtype=np.int32), [[0.2]], [[5]]),
        (gym.spaces.Discrete(3, start=-1), [0, 2], [-1, 1]),
        (gym.spaces.MultiDiscrete([2, 3], start=[1, 5]), [[0, 2]], [[1, 7]]),
        (gym.spaces.MultiBinary((2, 2)), [[1, 0, 0, 1]], [[[1, 0], [0, 1]]]),
    ],
)
def test_actions_reach_the_bounds_and_the_shape_of_the_space(space: Any, canonical: Any, expected: Any) -> None:
    dtype = np.float32 if isinstance(space, gym.spaces.Box) else np.int64
    got = action_translator(space, len(canonical))(np.array(canonical, dtype))
    assert got.tolist() == expected, got
    if isinstance(space, gym.spaces.Box):
        assert got.dtype == space.dtype
        assert all(space.contains(one) for one in got), got


def test_scaling_never_rounds_out_of_the_bounds() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(0, 10, 2000).astype(np.float32)
    space = gym.spaces.Box(low, low + rng.uniform(0.001, 20, 2000).astype(np.float32))
    to_env = action_translator(space, 3)
    for value in (-1.0, 1.0):
        got = to_env(np.full((3, 2000), value, np.float32))[0]
        assert space.contains(got), np.flatnonzero((got < space.low) | (got > space.high))
        assert np.allclose(got, space.low if value < 0 else space.high, rtol=1e-5, atol=1e-5)


def test_sampled_actions_are_canonical_and_depend_on_the_generator_only() -> None:
    for env_id, dtype, shape in (("CartPole-v1", np.int64, (2,)), ("Pendulum-v1", np.float32, (2, 1))):
        adapter = EnvAdapter(make_vector_env(config(env_id)))
        one, two = (adapter.sample_actions(np.random.default_rng(5)) for _ in range(2))
        assert (one.dtype, one.shape, one.tolist()) == (dtype, shape, two.tolist())


def test_an_unknown_autoreset_mode_is_refused() -> None:
    envs = make_vector_env(config(OneState))
    del envs.metadata["autoreset_mode"]
    with pytest.raises(EnvError, match="does not say how it resets"):
        EnvAdapter(envs)


@pytest.fixture
def adapters() -> Iterator[Callable[[Any, str], EnvAdapter]]:
    made: list[EnvAdapter] = []

    def make(env_id: Any, backend: str = "lean") -> EnvAdapter:
        made.append(EnvAdapter(build(env_id, backend, 2)))
        return made[-1]

    yield make
    for adapter in made:
        adapter.close()


@pytest.mark.parametrize("backend", ["lean", "async", "sync next", "sync disabled", "native"])
def test_a_restored_adapter_continues_bit_for_bit(adapters: Callable[..., EnvAdapter], backend: str) -> None:
    adapter, fresh, rng = adapters("CartPole-v1", backend), adapters("CartPole-v1", backend), np.random.default_rng(0)
    actions = [adapter.sample_actions(rng) for _ in range(200)]
    adapter.reset(seed=1)
    ends = [bool((s.terminated | s.truncated).any()) for s in map(adapter.step, actions[:100])]
    if backend == "sync next":  # stop where a reset is due, the state that is easily lost
        for extra in actions[:60]:
            step = adapter.step(extra)
            if (step.terminated | step.truncated).any():
                break
    assert any(ends)
    state = adapter.state_dict()
    assert adapter.exact, adapter.capture
    expected = [summary(adapter.step(a)) for a in actions[100:]]
    fresh.load_state_dict(state)
    got = [summary(fresh.step(a)) for a in actions[100:]]
    assert got == expected, next(i for i, (a, b) in enumerate(zip(got, expected)) if a != b)


def summary(step: Any) -> Any:
    valid = None if step.valid is None else step.valid.tolist()
    return step.obs.tolist(), step.reward.tolist(), step.terminated.tolist(), step.next_obs.tolist(), valid


def test_another_number_of_envs_is_refused(adapters: Callable[..., EnvAdapter]) -> None:
    adapter = adapters("CartPole-v1")
    adapter.reset(seed=0)
    other = EnvAdapter(build("CartPole-v1", "lean", 3))
    with pytest.raises(ConfigError, match=r"2 environments; this run has 3"):
        other.load_state_dict(adapter.state_dict())


def test_foreign_vector_envs_are_honestly_not_exact() -> None:
    adapter = EnvAdapter(SyncVectorEnv([lambda: OneState()], autoreset_mode=AutoresetMode.SAME_STEP))
    adapter.reset(seed=0)
    assert (adapter.exact, adapter.capture) == (False, "not exact: the environments were not made by make_vector_env")
    adapter.load_state_dict(adapter.state_dict())
