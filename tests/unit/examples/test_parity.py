"""The reference scripts and the package compute the same updates: same start, same data, same parameters afterwards."""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.algorithms.sac import SACAlgorithm, SACConfig
from rl_training.algorithms.td3 import TD3Algorithm
from rl_training.algorithms.td3_bc import TD3BCConfig
from rl_training.algorithms.terms import BehaviorCloning
from rl_training.config import ModelConfig
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.rollout_buffer import RolloutBuffer
from rl_training.models.critics import EnsembleCritic, ValueNet
from rl_training.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    EpsilonGreedyPolicy,
    Policy,
    SquashedGaussianPolicy,
)
from rl_training.models.q_nets import q_net
from rl_training.runtime.acting import Actor
from rl_training.runtime.learner import Learner
from rl_training.specs import ActionSpec, Leaf, ObsSpec

EXAMPLES = Path(__file__).parents[3] / "examples"
SCRIPTS = ["ppo_cartpole", "dqn_cartpole", "sac_pendulum", "td3_bc"]
TOLERANCE = 1e-6
RELU = ModelConfig(hidden=(32, 32), activation="relu", init="default")
OBS = ObsSpec((Leaf("", (3,), "float32"),))
CONTINUOUS = ActionSpec("continuous", dim=2)
DISCRETE = ActionSpec("discrete", (2,))


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_reference", EXAMPLES / f"{name}_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def experience(steps: int, envs: int, action: ActionSpec, seed: int = 0) -> dict[str, Any]:
    """A (T, N) chunk with terminated and truncated episodes, as a collector hands it out."""
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((steps + 1, envs, 3)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, envs)) < 0.15
    terminated[2, 0], truncated[2, -1] = True, True
    ended = (terminated | truncated)[..., None]
    final = rng.standard_normal((steps, envs, 3)).astype(np.float32)
    if action.kind == "discrete":
        actions: Any = rng.integers(0, action.n, (steps, envs))
    else:
        actions = rng.uniform(-1, 1, (steps, envs, action.dim)).astype(np.float32)
    return {
        "obs": obs[:-1], "action": actions, "reward": rng.standard_normal((steps, envs)).astype(np.float32),
        "terminated": terminated, "truncated": truncated, "next_obs": np.where(ended, final, obs[1:]),
    }  # fmt: skip


def acting(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """What the policy's network gives while it acts: (T, N, ...)."""
    return np.stack([Actor(policy).outputs(step) for step in obs])


def member(ensemble: nn.Module, index: int) -> list[torch.Tensor]:
    """One critic of an ensemble in the layout of `nn.Linear`: weights (out, in), biases (out,)."""
    parts = [p.detach()[index] for p in ensemble.parameters()]
    return [part.squeeze(0) if len(part) == 1 else part.T for part in parts]


def plain(module: nn.Module) -> list[torch.Tensor]:
    return [p.detach() for p in module.parameters()]


# What is compared: by name, the tensors of the package and those of the reference.
Groups = Callable[[], dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]]


def same_start(groups: Groups) -> None:
    for name, (package, reference) in groups().items():
        assert [p.shape for p in package] == [r.shape for r in reference], name
        for p, r in zip(package, reference):
            r.copy_(p)


def snapshot(groups: Groups) -> dict[str, torch.Tensor]:
    return {name: torch.cat([p.reshape(-1) for p in package]) for name, (package, _) in groups().items()}


def assert_parity(groups: Groups, start: dict[str, torch.Tensor], least_move: float) -> None:
    """All parameters agree, and every group has moved: two that stand still agree as well."""
    for name, (package, reference) in groups().items():
        gap = max(float((p - r).abs().max()) for p, r in zip(package, reference))
        moved = float((snapshot(groups)[name] - start[name]).abs().max())
        assert gap <= TOLERANCE, f"{name}: parameters differ by up to {gap:.2e} after moving by {moved:.2e}"
        assert moved >= least_move, f"{name}: moved by only {moved:.2e}"


def test_ppo_matches_its_reference_on_rollouts_with_both_kinds_of_end() -> None:
    config = PPOConfig(learning_rate=1e-3, num_steps=16, epochs=4, minibatches=4, ent_coef=0.01, anneal_lr=True, anneal_clip=True)
    algorithm = PPOAlgorithm(config, CategoricalPolicy(OBS, DISCRETE, ModelConfig()), ValueNet(OBS, ModelConfig()))
    learner = Learner(algorithm)
    buffer = RolloutBuffer(16, 4, gamma=0.99, gae_lambda=0.95, epochs=4, minibatches=4, seed=3)
    reference = script("ppo_cartpole").PPO(
        3, 2, learning_rate=1e-3, gamma=0.99, gae_lambda=0.95, entropy_coef=0.01, epochs=4, minibatches=4
    )

    def groups() -> dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]:
        return {
            "actor": (plain(algorithm.policy.net), plain(reference.actor)),
            "critic": (plain(algorithm.critic), plain(reference.critic)),
        }

    same_start(groups)
    start = snapshot(groups)
    rng = np.random.default_rng(3)
    for number in range(3):
        chunk = experience(16, 4, DISCRETE, seed=number)
        tensors = {key: torch.from_numpy(part) for key, part in chunk.items()}
        chunk["outputs"] = acting(algorithm.policy, chunk["obs"])
        for of in (algorithm, reference):
            of.anneal(number / 3)
        prepared = reference.prepare(tensors)
        buffer.add(chunk)
        for batch in buffer.batches(64, learner.prepare):
            learner.update(batch)
        for key in ("log_prob", "value", "advantage", "return"):
            gap = np.abs(buffer.data[key] - prepared[key].numpy()).max()
            assert gap <= 1e-5, f"rollout {number}: {key} differs by {gap:.2e}"
        reference.learn(tensors, rng)
    assert learner.updates == 48
    assert_parity(groups, start, least_move=1e-3)


@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn_matches_its_reference(n_step: int) -> None:
    module = script("dqn_cartpole")
    config = DQNConfig(learning_rate=5e-4, double=True, max_grad_norm=0.5)
    policy = EpsilonGreedyPolicy(OBS, q_net(OBS, DISCRETE, RELU), nn.Identity(), RELU, (1.0, 0.05), 100)
    algorithm = DQNAlgorithm(config, policy, sync_every=5)
    learner = Learner(algorithm)
    reference = module.DQN(3, 2, hidden=32, max_grad_norm=0.5, sync_every=5)

    def groups() -> dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]:
        return {
            "q": (plain(algorithm.policy.net), plain(reference.q)),
            "target": (plain(algorithm.target.net), plain(reference.target)),
        }

    same_start(groups)
    start = snapshot(groups)
    # 70 steps through rings of 50: windows cross the wrap, and the newest step ends some of them.
    chunk = experience(70, 1, DISCRETE) | {"reward": np.full((70, 1), 3.0, np.float32)}
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=50, batch_size=64, gamma=0.99, n_step=n_step)
    buffer.add(chunk)
    replay = module.Replay(50, 3)
    for t in range(70):
        replay.add(*(chunk[k][t, 0] for k in ("obs", "action", "reward", "terminated", "truncated", "next_obs")))
    for number in range(12):
        batch = buffer.sample(64)
        mine = replay.gather(batch["index"].numpy(), n_step, 0.99)
        for key in mine:
            assert torch.equal(batch[key], mine[key]), f"update {number}: {key} differs"
        learner.update(batch)
        reference.update(mine)
    assert_parity(groups, start, least_move=1e-3)


def replayed(batch: dict[str, Any], chunk: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The rows of a batch, looked up in what was collected instead of in the buffer."""
    rows = batch["index"].numpy()
    flat = {key: part.reshape(-1, *part.shape[2:]) for key, part in chunk.items()}
    return {key: torch.from_numpy(flat[key][rows]) for key in ("obs", "action", "reward", "terminated", "next_obs")}


def replay_of(chunk: dict[str, Any]) -> ReplayBuffer:
    steps, envs = chunk["reward"].shape
    buffer = ReplayBuffer(OBS, CONTINUOUS, capacity=steps * envs, num_envs=envs, batch_size=64, gamma=0.99)
    buffer.add(chunk)
    return buffer


def test_sac_matches_its_reference() -> None:
    policy = SquashedGaussianPolicy(OBS, CONTINUOUS, RELU)
    critic = EnsembleCritic(OBS, CONTINUOUS, RELU, members=2)
    algorithm = SACAlgorithm(SACConfig(learning_rate=1e-3), policy, critic, target_entropy=-2.0)
    learner = Learner(algorithm)
    reference = script("sac_pendulum").SAC(3, 2, hidden=32, learning_rate=1e-3)

    def groups() -> dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]:
        pairs = {"actor": (plain(policy.net), plain(reference.actor))}
        for i in range(2):
            pairs[f"critic {i}"] = (member(algorithm.critic, i), plain(reference.critics[i]))
            pairs[f"target {i}"] = (member(algorithm.target.net, i), plain(reference.target_critics[i]))
        return pairs | {"log alpha": ([algorithm.log_alpha.detach()], [reference.log_alpha.detach()])}

    same_start(groups)
    start = snapshot(groups)
    chunk = experience(100, 2, CONTINUOUS)
    buffer = replay_of(chunk)
    for number in range(12):
        batch = buffer.sample(64)
        torch.manual_seed(number)
        learner.update(batch)
        torch.manual_seed(number)
        reference.update(replayed(batch, chunk))
    assert_parity(groups, start, least_move=1e-4)


def test_td3_bc_matches_its_reference_on_standardized_observations() -> None:
    model = ModelConfig(hidden=(32, 32), activation="relu", init="default", normalize_obs=True)
    chunk = experience(100, 2, CONTINUOUS)
    for key in ("obs", "next_obs"):
        chunk[key] = chunk[key] * np.float32(3.0) + np.float32(1.5)
    policy = DeterministicPolicy(OBS, CONTINUOUS, model, noise=0.1)
    assert policy.normalizer is not None
    policy.normalizer.fit([torch.from_numpy(chunk["obs"])], eps=1e-3)
    critic = EnsembleCritic(OBS, CONTINUOUS, model, members=2)
    algorithm = TD3Algorithm(TD3BCConfig(learning_rate=1e-3), policy, critic, BehaviorCloning(2.5))
    learner = Learner(algorithm)
    reference = script("td3_bc").TD3BC(chunk["obs"].reshape(-1, 3), 2, hidden=32)

    def groups() -> dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]:
        pairs = {
            "actor": (plain(policy.net), plain(reference.actor)),
            "target actor": (plain(algorithm.actor_target.net), plain(reference.target_actor)),
        }
        for i in range(2):
            pairs[f"critic {i}"] = (member(algorithm.critic, i), plain(reference.critics[i]))
            pairs[f"target {i}"] = (member(algorithm.critic_target.net, i), plain(reference.target_critics[i]))
        return pairs

    same_start(groups)
    start = snapshot(groups)
    buffer = replay_of(chunk)
    for number in range(12):
        batch = buffer.sample(64)
        torch.manual_seed(number)
        learner.update(batch)
        torch.manual_seed(number)
        reference.update(replayed(batch, chunk))
    assert_parity(groups, start, least_move=1e-5)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run_from_start_to_end(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXAMPLES / f"{name}_reference.py"
    small = ["--dataset-steps", "400"] if name == "td3_bc" else []
    monkeypatch.setattr("sys.argv", [str(path), "--total-timesteps", "64", *small])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "evaluation after" in printed, printed
    score = float(printed.split()[-1])
    low, high = (1.0, 500.0) if "cartpole" in name else (-1627.4 * 2, 0.0)
    assert low <= score <= high, printed


def test_scripts_are_short_and_use_nothing_of_the_package() -> None:
    for name in SCRIPTS:
        text = (EXAMPLES / f"{name}_reference.py").read_text()
        assert len(text.splitlines()) < 300, f"{name}: {len(text.splitlines())} lines"
        assert "import rl_training" not in text and "from rl_training" not in text, name
