"""Deliberate faults: each forgets one piece of state when a run is resumed. The harness must notice every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _forget(module: str, cls: str, attribute: str) -> None:
    """Loading leaves `attribute` of the part as it was before."""
    import copy
    import importlib

    kind: Any = getattr(importlib.import_module(module), cls)
    load = kind.load_state_dict

    def forgetful(self: Any, state: Any) -> None:
        before = copy.deepcopy(getattr(self, attribute))
        load(self, state)
        setattr(self, attribute, before)

    kind.load_state_dict = forgetful


def _forget_torch_rng() -> None:
    from rl_training.runtime.rng import GlobalRng

    load = GlobalRng.load_state_dict

    def forgetful(self: GlobalRng, state: Any) -> None:
        import torch

        before = torch.get_rng_state()
        load(self, state)
        torch.set_rng_state(before)

    GlobalRng.load_state_dict = forgetful


def _forget_tensors(ending: str) -> None:
    """Loading leaves the tensors of the algorithm whose names end so as they were before."""
    from rl_training.runtime.learner import Learner

    load = Learner.load_state_dict

    def forgetful(self: Learner, state: dict[str, Any]) -> None:
        old = {k: v.clone() for k, v in self.algorithm.state_dict().items() if k.endswith(ending)}
        assert old, f"{type(self.algorithm).__name__} has nothing that ends in {ending}"
        load(self, {**state, "algorithm": {**state["algorithm"], **old}})

    Learner.load_state_dict = forgetful


def _forget_generator(module: str, cls: str) -> None:
    """Loading keeps the part's generator where a new run has it."""
    import copy
    import importlib

    kind: Any = getattr(importlib.import_module(module), cls)
    load = kind.load_state_dict

    def forgetful(self: Any, state: Any) -> None:
        before = copy.deepcopy(self.rng.bit_generator.state)
        load(self, state)
        self.rng.bit_generator.state = before

    kind.load_state_dict = forgetful


def _forget_environments() -> None:
    from rl_training.envs.adapter import EnvAdapter

    EnvAdapter.load_state_dict = lambda self, state: None


def _keep_log_rows() -> None:
    from rl_training._atomic import AppendFile

    start = AppendFile.__init__
    AppendFile.__init__ = lambda self, path, keep=None: start(self, path)


# name -> (scenario whose run shows it, the fault)
MUTANTS: dict[str, tuple[str, Callable[[], None]]] = {
    "torch's generator": ("sac", _forget_torch_rng),
    "collector.obs": ("ppo", lambda: _forget("rl_training.runtime.collector", "Collector", "obs")),
    "collector.rng": ("ppo", lambda: _forget_generator("rl_training.runtime.collector", "Collector")),
    "collector.returns": ("ppo", lambda: _forget("rl_training.runtime.collector", "Collector", "returns")),
    "rollout order": ("ppo", lambda: _forget_generator("rl_training.data.rollout_buffer", "RolloutBuffer")),
    "reward statistics": ("ppo", lambda: _forget("rl_training.data.reward_scale", "RewardScaler", "var")),
    "observation statistics": ("ppo", lambda: _forget_tensors("normalizer.mean")),
    "first moments": ("ppo", lambda: _forget_tensors("exp_avg")),
    "second moments": ("sac", lambda: _forget_tensors("critic_optim.exp_avg_sq")),
    "optimizer steps": ("sac", lambda: _forget_tensors("alpha_optim.steps")),
    "target network": ("dqn", lambda: _forget_tensors("target.net.3.value.0.weight")),
    "update count": ("dqn", lambda: _forget("rl_training.runtime.learner", "Learner", "updates")),
    "metric sums": ("dqn", lambda: _forget("rl_training.runtime.learner", "Learner", "_sums")),
    "largest priority": ("dqn", lambda: _forget("rl_training.data.priority", "PriorityTree", "largest")),
    "update credit": ("dqn", lambda: _forget("rl_training.data.replay_buffer", "ReplayBuffer", "credit")),
    "ring position": ("dqn", lambda: _forget("rl_training.data.storage", "Storage", "head")),
    "environments": ("dqn", _forget_environments),
    "replay rows": ("sac", lambda: _forget("rl_training.data.storage", "Storage", "filled")),
    "sampling order": ("sac", lambda: _forget_generator("rl_training.data.replay_buffer", "ReplayBuffer")),
    "dataset order": ("td3_bc", lambda: _forget_generator("rl_training.data.dataset_buffer", "DatasetBuffer")),
    "rows cut off": ("dqn", _keep_log_rows),
}
