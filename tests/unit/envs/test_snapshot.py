"""A captured environment continues bit for bit; what cannot be captured is said, never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rl_training.envs import EnvAdapter, make_env, make_vector_env
from rl_training.envs.probe import _from_json, _to_json, probe
from rl_training.envs.snapshot import CapturedEnv, obs_hash
from rl_training.envs.snapshot_reader import TreeReader
from rl_training.envs.snapshot_tree import TreeWriter
from rl_training.errors import CheckpointError, EnvError
from rl_training.testing import Hooked, Noisy

STATIC = [
    "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1",
    "CliffWalking-v1",
    "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Hopper-v4", "Reacher-v5", "Pusher-v5", "LunarLander-v3",
    "BipedalWalker-v3",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(env: gym.Env[Any, Any], actions: list[Any]) -> list[Any]:
    steps = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        steps.append((obs_hash(obs), float(reward), terminated, truncated))
        if terminated or truncated:
            steps.append((obs_hash(env.reset()[0]),))
    return steps


def through_json(tree: Any) -> Any:
    return _from_json(json.loads(json.dumps(_to_json(tree))))


@pytest.mark.parametrize("env_id", STATIC)
def test_known_families_continue_bit_for_bit(env_id: str) -> None:
    engine = {"v4": "mujoco", "v5": "mujoco"}.get(env_id.partition("-")[2], "")
    pytest.importorskip("Box2D" if env_id[:2] in ("Lu", "Bi") else engine or "gymnasium")
    env, fresh = CapturedEnv(make_env(env_id)), CapturedEnv(make_env(env_id))
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(160)]
    env.reset(seed=5)
    run(env, actions[:50])
    env.reset()
    run(env, actions[50:80])
    tree = through_json(env.get_rl_state())
    expected = run(env, actions[80:])
    fresh.reset(seed=99)
    fresh.step(actions[0])
    fresh.set_rl_state(tree)
    assert run(fresh, actions[80:]) == expected, f"{env_id} by {tree['method']}"
    restored = fresh.get_rl_state()
    assert restored["method"] == tree["method"] and expected


def test_a_used_physics_world_leaves_no_trace_in_later_episodes() -> None:
    pytest.importorskip("Box2D")
    env, fresh = CapturedEnv(make_env("BipedalWalker-v3")), CapturedEnv(make_env("BipedalWalker-v3"))
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(1100)]
    env.reset(seed=0)
    run(env, actions[:750])
    fresh.set_rl_state(env.get_rl_state())
    assert run(fresh, actions[750:]) == run(env, actions[750:])


def test_capturing_does_not_disturb_and_the_tree_is_a_copy() -> None:
    env = CapturedEnv(make_env("Pendulum-v1"))
    env.reset(seed=0)
    tree = env.get_rl_state()
    before = json.dumps(_to_json(tree))
    run(env, [np.zeros(1, np.float32)] * 5)
    env.set_rl_state(tree)
    run(env, [np.zeros(1, np.float32)] * 5)
    assert json.dumps(_to_json(tree)) == before, "stepping changed a saved tree"


def test_replay_says_when_it_cannot_reach_the_saved_state() -> None:
    env = CapturedEnv(make_env("LunarLander-v3"))
    env.reset(seed=0)
    env.step(0)
    tree = env.get_rl_state()
    tree["hash"] = "0" * 64
    with pytest.raises(EnvError, match="did not reach its saved state again"):
        CapturedEnv(make_env("LunarLander-v3")).set_rl_state(tree)


class Inner:
    def __init__(self, at: int) -> None:
        self.at, self.twin = at, self


def test_trees_keep_values_types_sharing_and_cycles() -> None:
    shared = [1, 2]
    root = SimpleNamespace()
    original = Inner(3)
    values = {
        "plain": [None, True, 1, 2.5, "x", float("inf"), b"ab", (1, (2,)), {3, 4}, frozenset({5})],
        "keys": {1: "a", (2, 3): "b", "c": shared},
        "again": shared,
        "arrays": [np.arange(6).reshape(2, 3), np.float32(1.5), np.array([None, "x"], dtype=object)],
        "object": original,
    }
    for name, value in values.items():
        setattr(root, name, value)
    root.function = lambda: 0
    writer = TreeWriter([original])
    writer._ids.clear()
    tree = through_json(writer.attributes(root))
    assert tree["kept"] == ["function"]
    made = SimpleNamespace(function="kept", extra="goes")
    TreeReader([original]).attributes(made, tree)
    assert made.plain == values["plain"] and [type(v) for v in made.plain] == [type(v) for v in values["plain"]]
    assert made.keys == values["keys"] and made.keys["c"] is made.again and made.again is not shared
    assert made.arrays[0].tolist() == [[0, 1, 2], [3, 4, 5]] and made.arrays[1].dtype == np.float32
    assert made.arrays[2].tolist() == [None, "x"]
    assert type(made.object) is Inner and made.object.twin is made.object and made.object.at == 3
    assert made.function == "kept" and not hasattr(made, "extra")


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "no_such_module:X", "builtins:eval"])
def test_a_tree_names_no_class_outside_the_environment(name: str) -> None:
    tree = {"values": {"x": {"kind": "object", "id": 1, "class": name, "values": {}, "kept": []}}, "kept": []}
    with pytest.raises(CheckpointError, match="which this environment lacks"):
        TreeReader([Noisy()]).attributes(SimpleNamespace(), tree)


HIDDEN = '''
import random
import gymnasium as gym, numpy as np
from rl_training.testing import Noisy

class Counting(Noisy):
    """A generator that counts: only replay restores it."""
    def reset(self, *, seed=None, options=None):
        self.count = iter(range(10**6))
        return super().reset(seed=seed, options=options)
    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(next(self.count)), terminated, truncated, info

class Global(Noisy):
    """Draws from the global generator: nothing restores it."""
    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, random.random(), terminated, truncated, info
'''


def test_the_probe_finds_the_right_way_for_each(tmp_path: Path) -> None:
    file = tmp_path / "hidden.py"
    file.write_text(HIDDEN)
    found = {name: probe(f"file:{file}:{name}") for name in ("Counting", "Global")}
    found |= {env.__name__: probe(env) for env in (Noisy, Hooked)}
    reason = "none: its state or randomness cannot be restored from attributes, seed and actions"
    assert found == {"Counting": "replay", "Global": reason, "Noisy": "python", "Hooked": "hook"}


def test_the_answer_is_cached_until_the_code_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from rl_training.testing import Noisy as Mine\n")
    asked: list[str] = []
    monkeypatch.setattr("rl_training.envs.probe._probe_in_processes", lambda request: asked.append(request) or "python")
    assert [probe(f"file:{file}:Mine"), probe(f"file:{file}:Mine"), len(asked)] == ["python", "python", 1]
    probe(f"file:{file}:Mine", {"a": 1})
    file.write_text("from rl_training.testing import Mixed as Mine\n")
    probe(f"file:{file}:Mine")
    assert len(asked) == 3, asked


def test_the_probe_says_why_not(tmp_path: Path) -> None:
    assert probe(lambda: Noisy()).startswith("none: the environment is made by a local function")
    assert probe(Noisy, {"x": object()}) == "none: env.kwargs has values that cannot be written as JSON"
    assert "no class or function 'Gone'" in probe("rl_training.testing:Gone")


def test_known_families_start_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_probe(*_: Any) -> str:
        raise AssertionError("probed")

    monkeypatch.setattr("rl_training.envs.probe.probe", no_probe)
    labels = {}
    for env_id in ("CartPole-v1", "Hopper-v5", "LunarLander-v3"):
        env = SimpleNamespace(num_envs=1, backend="sync", kwargs={})
        labels[env_id] = EnvAdapter(make_vector_env(SimpleNamespace(env_id=env_id, env=env))).capture
    assert list(labels.values()) == ["exact (plain Python)", "exact (MuJoCo state)", "exact (replay)"], labels
