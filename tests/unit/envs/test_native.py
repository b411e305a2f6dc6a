"""Native environments against Gymnasium's own, step by step, and their exact state."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rl_training.envs.native import NATIVE_IDS, make_native
from rl_training.errors import ConfigError, EnvError

NUM_ENVS = 8
STEPS = 1500
DISCRETE_IDS = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0")
# Where NumPy takes sin, cos and pow from the C library, as compiled kernels do, equal means equal in every bit.
BITWISE = (platform.system(), platform.machine()) == ("Linux", "x86_64") and np.__version__ >= "2"


def reference(env_id: str) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gym.make(env_id)] * NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)


# Half of the environments follow these, so that goals, walls, speed limits, clipping and time limits are all met.
POLICIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Acrobot-v1": lambda obs: np.where(obs[:, 5] > 0, 2, 0),
    "CartPole-v1": lambda obs: np.where(obs[:, 2] + 0.3 * obs[:, 3] + 0.05 * obs[:, 0] + 0.1 * obs[:, 1] > 0, 1, 0),
    "MountainCar-v0": lambda obs: np.where(obs[:, 1] < 0, 0, 2),
    "MountainCarContinuous-v0": lambda obs: np.where(obs[:, 1:] < 0, np.float32(-1.5), np.float32(0.9)),
    "Pendulum-v1": lambda obs: np.where(obs[:, 2:] < 0, np.float32(-2.5), np.float32(2.5)),
}


def mixed_actions(env: Any, obs: np.ndarray) -> np.ndarray:
    actions = env.action_space.sample()
    actions[::2] = POLICIES[env.env_id](obs)[::2]
    return actions


def play(env: Any, obs: np.ndarray, steps: int) -> list[tuple[np.ndarray, ...]]:
    results = []
    for _ in range(steps):
        result = env.step(mixed_actions(env, obs))
        obs = result[0]
        results.append(result[:4])
    return results


@pytest.mark.parametrize("seed", [0, 12345])
@pytest.mark.parametrize("env_id", NATIVE_IDS)
def test_a_run_equals_gymnasium(env_id: str, seed: int) -> None:
    """Free running: nothing is synchronised after the seed, so a deviation would grow (Acrobot is chaotic)."""
    native, gymnasium = make_native(env_id, NUM_ENVS), reference(env_id)
    assert native.single_observation_space == gymnasium.single_observation_space
    assert native.single_action_space == gymnasium.single_action_space
    assert native.observation_space == gymnasium.observation_space
    assert native.action_space == gymnasium.action_space
    assert native.spec == gym.spec(env_id)
    assert native.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP

    obs, infos = native.reset(seed=seed)
    np.testing.assert_array_equal(obs, gymnasium.reset(seed=seed)[0])
    assert infos == {}
    native.action_space.seed(seed)
    terminations = truncations = 0
    worst = worst_reward = worst_physics = 0.0
    for step in range(STEPS):
        actions = mixed_actions(native, obs)
        obs, reward, terminated, truncated, infos = native.step(actions)
        theirs = gymnasium.step(actions)
        assert (obs.dtype, reward.dtype, terminated.dtype) == (np.float32, np.float64, np.bool_)
        worst = max(worst, float(np.abs(obs - theirs[0]).max()))
        physics = np.stack([env.unwrapped.state for env in gymnasium.envs])  # float64: shows what float32 rounds away
        worst_physics = max(worst_physics, float(np.abs(native.state_dict()["state"] - physics).max()))
        worst_reward = max(worst_reward, float(np.abs(reward - theirs[1]).max()))
        np.testing.assert_array_equal(terminated, theirs[2], err_msg=f"terminated at step {step}")
        np.testing.assert_array_equal(truncated, theirs[3], err_msg=f"truncated at step {step}")
        assert ("final_obs" in infos) == ("final_obs" in theirs[4]), f"infos at step {step}: {infos}"
        if infos:
            ended = infos["_final_obs"]
            np.testing.assert_array_equal(ended, theirs[4]["_final_obs"], err_msg=f"mask at step {step}")
            final = np.stack(theirs[4]["final_obs"][ended])
            worst = max(worst, float(np.abs(infos["final_obs"][ended] - final).max()))
            np.testing.assert_array_equal(infos["final_obs"][~ended], obs[~ended])
        terminations += int(terminated.sum())
        truncations += int(truncated.sum())
    assert worst <= (0.0 if BITWISE else 1e-5), f"observations differ by {worst}"
    assert worst_physics <= (0.0 if BITWISE else 1e-5), f"physics states differ by {worst_physics}"
    assert worst_reward <= (0.0 if BITWISE else 1e-6), f"rewards differ by {worst_reward}"
    assert truncations > 0, "the run never met the time limit"
    assert (terminations > 0) == (env_id != "Pendulum-v1"), f"{terminations} terminations"


@pytest.mark.parametrize("env_id", NATIVE_IDS)
def test_a_loaded_state_continues_bit_for_bit(env_id: str) -> None:
    original = make_native(env_id, NUM_ENVS)
    obs, _ = original.reset(seed=7)
    obs = play(original, obs, 150)[-1][0]
    tree = original.state_dict()
    tree["generators"] = json.loads(json.dumps(tree["generators"]))
    original.action_space.seed(1)
    expected = play(original, obs, 1000)
    assert any((r[2] | r[3]).any() for r in expected), "no episode ended, so no draw was compared"

    fresh = make_native(env_id, NUM_ENVS)
    fresh.load_state_dict(tree)
    fresh.action_space.seed(1)
    for step, (got, want) in enumerate(zip(play(fresh, tree["obs"], 1000), expected)):
        for ours, theirs in zip(got, want):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"step {step}")


def test_a_saved_state_is_not_changed_by_later_steps() -> None:
    env = make_native("CartPole-v1", 2)
    env.reset(seed=0)
    tree = env.state_dict()
    before = json.dumps(tree, default=np.ndarray.tolist)
    for _ in range(60):
        env.step(np.array([1, 1]))
    assert json.dumps(tree, default=np.ndarray.tolist) == before


def test_loading_needs_the_same_id_and_size() -> None:
    saved = make_native("CartPole-v1", 4)
    saved.reset(seed=0)
    for other in (make_native("CartPole-v1", 3), make_native("Acrobot-v1", 4)):
        with pytest.raises(ConfigError, match="4 x CartPole-v1"):
            other.load_state_dict(saved.state_dict())


def test_seeds() -> None:
    env = make_native("Pendulum-v1", 3)
    by_int, _ = env.reset(seed=5)
    by_list, _ = env.reset(seed=[5, 6, 7])
    np.testing.assert_array_equal(by_int, by_list)
    for index in range(3):
        single, _ = gym.make("Pendulum-v1").reset(seed=5 + index)
        np.testing.assert_array_equal(by_int[index], single)

    unseeded, _ = env.reset()
    assert not np.array_equal(unseeded, by_int), unseeded
    env.reset(seed=5)
    np.testing.assert_array_equal(env.reset()[0], unseeded)  # None lets the generators go on
    env.reset(seed=5)
    partly, _ = env.reset(seed=[None, 6, None])
    np.testing.assert_array_equal(partly, np.stack([unseeded[0], by_int[1], unseeded[2]]))
    with pytest.raises(EnvError, match="2 seeds for 3"):
        env.reset(seed=[1, 2])


@pytest.mark.parametrize("env_id", NATIVE_IDS)
def test_reset_options_are_those_of_gymnasium(env_id: str) -> None:
    options = {"x_init": 0.5, "y_init": 0.25} if env_id == "Pendulum-v1" else {"low": -0.3, "high": -0.2}
    ours, _ = make_native(env_id, NUM_ENVS).reset(seed=3, options=dict(options))
    np.testing.assert_array_equal(ours, reference(env_id).reset(seed=3, options=dict(options))[0])
    assert not np.array_equal(ours, make_native(env_id, NUM_ENVS).reset(seed=3)[0]), ours


def test_a_reset_mask_restarts_only_those() -> None:
    env = make_native("CartPole-v1", 3)
    env.reset(seed=0)
    before = env.step([0, 0, 0])[0]
    mask = np.array([False, True, False])
    after, _ = env.reset(seed=10, options={"reset_mask": mask})
    np.testing.assert_array_equal(after[~mask], before[~mask])
    np.testing.assert_array_equal(after[1], gym.make("CartPole-v1").reset(seed=11)[0])
    with pytest.raises(EnvError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([1, 0, 0])})


@pytest.mark.parametrize("env_id", DISCRETE_IDS)
@pytest.mark.parametrize("bad", [-1, 3])
def test_an_action_out_of_range_is_refused_and_changes_nothing(env_id: str, bad: int) -> None:
    env = make_native(env_id, 2)
    env.reset(seed=0)
    before = json.dumps(env.state_dict(), default=np.ndarray.tolist)
    with pytest.raises(EnvError, match=rf"{env_id}: the actions .*{bad}.* are invalid"):
        env.step(np.array([0, bad]))
    assert json.dumps(env.state_dict(), default=np.ndarray.tolist) == before


@pytest.mark.parametrize("actions", [1, [1], [1, 0, 1], [[1, 0]], [0.5, 1.0], ["a", "b"], [[1], [1, 0]], None])
def test_actions_of_the_wrong_shape_or_type_are_refused(actions: Any) -> None:
    env = make_native("CartPole-v1", 2)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="are invalid"):
        env.step(actions)


def test_any_integer_dtype_and_layout_is_an_action() -> None:
    env = make_native("CartPole-v1", 2)
    want = None
    for actions in (np.array([1, 0]), np.array([1, 0], np.uint8), np.array([1, 7, 0, 7])[::2], [1, 0]):
        env.reset(seed=0)
        obs = env.step(actions)[0]
        want = obs if want is None else want
        np.testing.assert_array_equal(obs, want)


def test_stepping_before_reset_is_an_error() -> None:
    with pytest.raises(EnvError, match="before reset"):
        make_native("CartPole-v1", 1).step([0])


def test_results_are_copies_unless_asked_otherwise() -> None:
    copying, sharing = make_native("Pendulum-v1", 2), make_native("Pendulum-v1", 2, copy=False)
    for env, shared in ((copying, False), (sharing, True)):
        first, _ = env.reset(seed=0)
        second = env.step(np.zeros((2, 1), np.float32))
        third = env.step(np.ones((2, 1), np.float32))
        assert np.shares_memory(first, third[0]) is shared
        for earlier, later in zip(second[:4], third[:4]):
            assert np.shares_memory(earlier, later) is shared


def test_final_observations_survive_the_next_steps_without_copying() -> None:
    env = make_native("CartPole-v1", 1, copy=False)
    env.reset(seed=0)
    infos: dict[str, Any] = {}
    while not infos:
        obs, _, _, _, infos = env.step([1])
    final, mask = infos["final_obs"].copy(), infos["_final_obs"].copy()
    assert not np.array_equal(final, obs), final
    env.step([0])
    np.testing.assert_array_equal(infos["final_obs"], final)
    np.testing.assert_array_equal(infos["_final_obs"], mask)


def test_unknown_names_and_sizes() -> None:
    with pytest.raises(ConfigError, match="Did you mean CartPole-v1"):
        make_native("Cartpole-v2", 1)
    with pytest.raises(ConfigError, match="at least 1"):
        make_native("CartPole-v1", 0)


def test_importing_the_package_does_not_load_the_compiler() -> None:
    code = "import sys, rl_training.envs.native as n; print('numba' in sys.modules, len(n.NATIVE_IDS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "5"], done.stdout
