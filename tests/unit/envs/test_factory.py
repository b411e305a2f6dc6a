"""Environments are found by name, and a name that does not work says what to type instead."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rl_training.envs import EnvAdapter, choose_backend, env_ids, make_env, make_vector_env
from rl_training.envs.sync import LeanSyncVectorEnv
from rl_training.envs.workers import SupervisedAsyncVectorEnv
from rl_training.errors import ConfigError, EnvError, MissingExtraError, UserError
from rl_training.testing import Mixed, Noisy, OneState


def config(env_id: Any, backend: str = "auto", num_envs: int = 2, **kwargs: Any) -> Any:
    return SimpleNamespace(env_id=env_id, env=SimpleNamespace(num_envs=num_envs, backend=backend, kwargs=kwargs))


def told(env_id: Any, **kwargs: Any) -> str:
    with pytest.raises(UserError) as caught:
        make_env(env_id, kwargs=kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("env_id", "lines"),
    [
        (
            "CartPol-v1",
            ["Unknown environment 'CartPol-v1'. Did you mean CartPole-v1? List: rl-training list envs --like cart"],
        ),
        ("Xyzzy", ["Unknown environment 'Xyzzy'. List: rl-training list envs --like xyzz"]),
        (
            "LunarLander-v2",
            ["LunarLander-v2 was replaced by LunarLander-v3 (scores are not comparable).", "Use LunarLander-v3"],
        ),
        (
            "HalfCheetah-v3",
            ["HalfCheetah-v3 was replaced by HalfCheetah-v5 (scores are not comparable).", "Use HalfCheetah-v5"],
        ),
        ("Taxi-v3", ["Taxi-v3 was replaced by Taxi-v4 (scores are not comparable).", "Use Taxi-v4"]),
        ("CartPole-v7", ["CartPole-v7 does not exist; the newest version is CartPole-v1.", "Use CartPole-v1"]),
        ("PongNoFrameskip-v4", ["'PongNoFrameskip-v4' is now called ALE/Pong-v5.", "Use ALE/Pong-v5"]),
        ("Pong-v5", ["'Pong-v5' is now called ALE/Pong-v5.", "Use ALE/Pong-v5"]),
        ("not a name", ["'not a name' is not an environment name.", "Examples: CartPole-v1, file:my_env.py:MyEnv"]),
    ],
)
def test_a_wrong_name_says_the_right_one(env_id: str, lines: list[str]) -> None:
    assert told(env_id).splitlines() == lines


@pytest.mark.parametrize(
    ("env_id", "module", "command"),
    [
        ("ALE/Pong-v5", "ale_py", 'pip install "rl-training[atari]"'),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "pip install minigrid"),
        ("FetchReach-v4", "gymnasium_robotics", 'pip install "rl-training[robotics]"'),
    ],
)
def test_a_missing_package_is_named_with_the_command(
    env_id: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == module else find(name))
    text = told(env_id)
    assert text.splitlines()[0].startswith(f"'{env_id}' needs the ") and f"Fix: {command}" in text, text


@pytest.mark.parametrize(("env_id", "extra"), [("Ant-v5", "mujoco"), ("LunarLander-v3", "box2d")])
def test_a_missing_engine_names_our_extra(env_id: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DependencyNotInstalled("no engine")

    monkeypatch.setattr(gym, "make", fail)
    with pytest.raises(MissingExtraError) as caught:
        make_env(env_id)
    assert str(caught.value) == f"'{env_id}' needs the {extra} extra.\nFix: pip install \"rl-training[{extra}]\""


def test_prefixed_names_import_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "minigrid.py").write_text(
        "import gymnasium as gym\ngym.register('MiniGrid-Fake-v0', entry_point='rl_training.testing:OneState')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert isinstance(make_env("MiniGrid-Fake-v0").unwrapped, OneState)
        assert "MiniGrid-Fake-v0" in env_ids("minigrid")
    finally:
        gym.registry.pop("MiniGrid-Fake-v0", None)
        sys.modules.pop("minigrid", None)


def test_env_ids_are_those_that_can_be_made() -> None:
    assert env_ids("cartpole") == sorted(env_ids("CARTPOLE")) and "CartPole-v1" in env_ids("cartpole")
    assert env_ids("HalfCheetah") == ["HalfCheetah-v4", "HalfCheetah-v5"]
    assert env_ids("no such thing") == []


MINE = """
import gymnasium as gym
from rl_training.testing import Noisy
class MyEnv(Noisy):
    def __init__(self, size=1):
        super().__init__()
        self.size = size
def make(): return gym.make("CartPole-v1")
def wrong(): return object()
"""


def test_environments_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my_env.py"
    file.write_text(MINE)
    env = make_env(f"file:{file}:MyEnv", kwargs={"size": 3})
    assert env.size == 3 and isinstance(env, Noisy)
    assert make_env(f"file:{file}:make").spec.id == "CartPole-v1"
    one, two = (type(make_env(f"file:{file}:MyEnv")) for _ in range(2))
    assert one is two, "an unchanged file was run twice"
    file.write_text(MINE.replace("size=1", "size=8"))
    assert make_env(f"file:{file}:MyEnv").size == 8, "an edited file was not loaded again"
    assert told(f"file:{file}:MyEnf").splitlines() == [
        f"'file:{file}:MyEnf': {file} has no class or function 'MyEnf'. Did you mean MyEnv?",
        "Environments it has: Noisy, MyEnv",
    ]
    assert told(f"file:{file}:wrong").startswith(f"file:{file}:wrong returned object, not a gymnasium.Env.")
    text = told(f"file:{file}:MyEnv", sise=2)
    assert "Did you mean size?" in text and text.endswith("It takes: size"), text
    file.write_text("import math\nmath.nothing\n")
    text = told(f"file:{file}:MyEnv")
    assert "AttributeError" in text and f"At {file}:2: math.nothing" in text, text
    assert told(f"file:{tmp_path}/gone.py:X").startswith(f"No file {tmp_path}/gone.py")
    assert told("file:my_env.py").startswith("'file:my_env.py' lacks the class name.")


def test_environments_from_a_module_and_from_callables() -> None:
    assert isinstance(make_env("rl_training.testing:OneState", kwargs={"limit": 3}), OneState)
    assert isinstance(make_env(OneState), OneState) and isinstance(make_env(lambda: Noisy()), Noisy)
    assert make_env("gymnasium:CartPole-v1").spec.id == "CartPole-v1"
    assert (
        told("no_such_module:X").splitlines()[0]
        == "Cannot import 'no_such_module' for the environment 'no_such_module:X'."
    )
    assert "Did you mean OneState?" in told("rl_training.testing:OneStat")


def test_an_error_inside_a_constructor_is_not_disguised() -> None:
    def broken() -> gym.Env[Any, Any]:
        raise TypeError("inner trouble")

    with pytest.raises(TypeError, match="inner trouble"):
        make_env(broken)
    text = told("CartPole-v1", sutton_reward=True)
    assert "Did you mean sutton_barto_reward?" in text, text


def test_the_default_is_a_gymnasium_sync_vector_env() -> None:
    envs = make_vector_env(config("CartPole-v1"), num_envs=4)
    assert isinstance(envs, SyncVectorEnv) and envs.num_envs == 4
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert not any(isinstance(layer, gym.wrappers.PassiveEnvChecker) for layer in layers(envs.envs[0]))
    assert make_vector_env(config("CartPole-v1", num_envs=3)).num_envs == 3


def layers(env: Any) -> list[Any]:
    found = [env]
    while isinstance(found[-1], gym.Wrapper):
        found.append(found[-1].env)
    return found


def test_backends() -> None:
    envs = make_vector_env(config("CartPole-v1", "async"))
    assert isinstance(envs, SupervisedAsyncVectorEnv) and envs.shared_memory
    envs.close()
    with pytest.raises(ConfigError, match=r"env.backend = 'asink' is unknown. Did you mean async\?"):
        make_vector_env(config("CartPole-v1", "asink"))
    with pytest.raises(ConfigError, match="num_envs = 0"):
        make_vector_env(config("CartPole-v1"), num_envs=0)


def test_choose_backend() -> None:
    native = pytest.importorskip("rl_training.envs.native")
    assert choose_backend(native.NATIVE_IDS[0], "auto", 8, {}) == "native"
    assert choose_backend(native.NATIVE_IDS[0], "auto", 8, {"gravity": 1.0}) == "sync"
    assert choose_backend(native.NATIVE_IDS[0], "async", 8, {}) == "async"
    assert choose_backend("ALE/Pong-v5", "auto", 8, {}) == "ale"
    assert choose_backend(OneState, "auto", 8, {}) == choose_backend("Ant-v5", "auto", 8, {}) == "sync"
    assert make_vector_env(config(native.NATIVE_IDS[0], "native")).num_envs == 2
    with pytest.raises(ConfigError, match="no native version of Ant-v5"):
        make_vector_env(config("Ant-v5", "native"))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCarContinuous-v0", "FrozenLake-v1", Noisy, Mixed])
def test_lean_stepping_equals_gymnasiums(env_id: Any) -> None:
    lean = make_vector_env(config(env_id), num_envs=3)
    same = SyncVectorEnv([lambda: make_env(env_id)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert isinstance(lean, LeanSyncVectorEnv)
    lean.action_space.seed(1)
    assert np.array_equal(flat(lean.reset(seed=2)[0]), flat(same.reset(seed=2)[0]))
    ends = 0
    for step in range(1200):
        action = lean.action_space.sample()
        got, expected = lean.step(action), same.step(action)
        for index in range(4):
            assert np.array_equal(flat(got[index]), flat(expected[index])), f"step {step}, part {index}"
        if "final_obs" in expected[4]:
            ends += 1
            for i in np.flatnonzero(expected[4]["_final_obs"]):
                assert np.array_equal(flat(got[4]["final_obs"][i]), flat(expected[4]["final_obs"][i])), f"step {step}"
            assert got[4]["_final_obs"].tolist() == expected[4]["_final_obs"].tolist()
            assert got[4]["final_info"].keys() == expected[4].get("final_info", {}).keys()
    assert ends > 0, "no episode ended: the test would prove nothing"


def flat(obs: Any) -> np.ndarray:
    if isinstance(obs, dict | tuple):
        return np.concatenate([flat(part) for part in (obs.values() if isinstance(obs, dict) else obs)])
    return np.asarray(obs, np.float64).ravel()


def test_lean_partial_reset_keeps_the_other_observations() -> None:
    envs = make_vector_env(config(Noisy), num_envs=3)
    envs.reset(seed=0)
    before = envs.step(np.full((3, 2), 0.1, np.float32))[0]
    after = envs.reset(options={"reset_mask": np.array([False, True, False])})[0]
    assert [np.array_equal(a, b) for a, b in zip(before, after)] == [True, False, True]


def test_a_user_error_in_an_env_keeps_its_type() -> None:
    class Refusing(Noisy):
        def step(self, action: Any) -> Any:
            raise ConfigError("my own message")

    envs = make_vector_env(config(Refusing))
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match="my own message"):
        envs.step(np.zeros((2, 2), np.float32))


class FakePool:
    """envpool's interface: batch first, resets ended episodes in the next step, seeds at construction."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def list_all_envs(self) -> list[str]:
        return ["CartPole-v1"]

    def make_gymnasium(self, name: str, num_envs: int, seed: int | None = None) -> Any:
        self.seeds.append(seed)
        inner = SyncVectorEnv([lambda: OneState(limit=3)] * num_envs)
        single = SimpleNamespace(
            observation_space=inner.single_observation_space, action_space=inner.single_action_space
        )
        return SimpleNamespace(**vars(single), reset=inner.reset, step=inner.step, close=inner.close)


def test_envpool_gives_true_successors(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = FakePool()
    monkeypatch.setitem(sys.modules, "envpool", pool)
    adapter = EnvAdapter(make_vector_env(config("CartPole-v1", "envpool")))
    adapter.reset(seed=5)
    steps = [adapter.step(np.zeros(2, np.int64)) for _ in range(5)]
    seen = [(s.next_obs[0, 0], bool(s.truncated[0]), s.valid is None) for s in steps]
    assert seen == [(1, False, True), (2, False, True), (3, True, True), (0, False, False), (1, False, True)], seen
    assert pool.seeds == [None, 5] and adapter.capture == "not exact: EnvpoolVectorEnv cannot save its state"
    with pytest.raises(ConfigError, match="envpool has no environment Ant-v5"):
        make_vector_env(config("Ant-v5", "envpool"))


def test_ale_is_asked_for_same_step_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class AtariVectorEnv(SyncVectorEnv):
        def __init__(self, game: str, num_envs: int, autoreset_mode: AutoresetMode, **kwargs: Any) -> None:
            asked.append((game, num_envs, autoreset_mode, kwargs))
            super().__init__([lambda: OneState()] * num_envs, autoreset_mode=autoreset_mode)

    package, module = ModuleType("ale_py"), ModuleType("ale_py.vector_env")
    module.AtariVectorEnv = AtariVectorEnv
    monkeypatch.setitem(sys.modules, "ale_py", package)
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", module)
    make_vector_env(config("ALE/SpaceInvaders-v5", "ale", stack_num=2))
    assert asked == [("space_invaders", 2, AutoresetMode.SAME_STEP, {"stack_num": 2})]
    with pytest.raises(ConfigError, match="Atari games only"):
        make_vector_env(config("CartPole-v1", "ale"))


@pytest.mark.parametrize(("backend", "extra"), [("ale", "atari"), ("envpool", "envpool")])
def test_a_backend_without_its_package_names_the_extra(
    backend: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py" if backend == "ale" else "envpool", None)
    with pytest.raises(MissingExtraError, match=rf"rl-training\[{extra}\]"):
        make_vector_env(config("ALE/Pong-v5", backend))


def test_a_shape_error_of_reset_is_an_env_error() -> None:
    class Bad(Noisy):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            raise OSError("disk")

    with pytest.raises(EnvError, match="env 0 of 2 raised OSError: disk"):
        make_vector_env(config(Bad)).reset(seed=0)
