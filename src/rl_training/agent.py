"""The lifecycle every algorithm offers: learn, predict, evaluate, save, load, resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import gymnasium as gym
import numpy as np

from rl_training.config import ModelConfig, TrainConfig, from_keywords
from rl_training.data.batch import Buffer
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, ObsSpec, action_spec, obs_spec

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm
    from rl_training.data.dataset import Dataset
    from rl_training.experiment.callbacks import Callback
    from rl_training.experiment.results import TrainResult
    from rl_training.runtime.evaluator import Evaluation

EnvSource = str | Callable[..., gym.Env[Any, Any]] | gym.vector.VectorEnv[Any, Any, Any]
"""An environment's name, a function that makes one, or a vector of them."""

FIRST_CHOICE = {"discrete": "dqn", "multidiscrete": "ppo", "continuous": "sac"}  # to suggest, by kind of action

Q_VALUES_ONLY = ("dueling", "noisy", "noisy_sigma")  # settings of networks that value discrete actions

TRAINED = 2**32 - 1  # as the step of a finished training: exploration that fades has faded


@dataclass
class Parts:
    """What a recipe makes of a config: a learning rule, what feeds it, and how collecting goes."""

    algorithm: Algorithm
    buffer: Buffer | None = None  # of env steps; None learns from stored data alone
    collect: int = 0  # steps per env between learning phases
    offline: Callable[[Dataset], Buffer] | None = None  # batches of a dataset; None has no use for one
    random_steps: int = 0  # env steps of uniformly random actions at the start
    keep_outputs: bool = False  # store the policy's outputs with each step, for losses that need the acting distribution
    noise_correlation: float = 0.0  # of exploration noise from one step to the next


class Agent:
    """A named algorithm on an environment.

    `PPO("CartPole-v1", num_envs=8, learning_rate=1e-3)`, `PPO(config)`, or `PPO(make_my_env)` with a function that returns a
    `gymnasium.Env` (or a vector env). Keywords are settings by name; `rl-training train ppo --help` lists them.
    """

    name: ClassVar[str]
    config_class: ClassVar[type]
    defaults: ClassVar[dict[str, Any]] = {}
    ignores: ClassVar[tuple[str, ...]] = ()  # settings of the model section without meaning here

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        """Choose rule, model parts and buffer."""
        raise NotImplementedError()

    def __init__(self, env: EnvSource | TrainConfig, *more: Any, **settings: Any) -> None:
        from rl_training.experiment.envs import env_name

        if more or isinstance(env, gym.Env):
            what = "an environment object" if isinstance(env, gym.Env) else f"{env!r} and {more[0]!r}"
            raise ConfigError(
                f"{type(self).__name__} takes the environment's id or a function that makes it, not {what}.",
                "Networks are settings: hidden=(256, 256), encoder='nature'.",
                f"Write: {type(self).__name__}('CartPole-v1') or {type(self).__name__}(lambda: gym.make(...))",
            )
        if not isinstance(env, TrainConfig):
            self._set_up(from_keywords(self.name, env_id=env_name(env), **settings), None if isinstance(env, str) else env)
        elif settings:
            raise ConfigError("Give settings in the config or as keywords, not both.", fix=f"{type(self).__name__}(config)")
        else:
            self._set_up(env, None)

    @classmethod
    def from_config(cls, config: TrainConfig, env: EnvSource | None = None) -> Self:
        """An agent of a complete config; `env` stands in for an environment that has no name."""
        agent = cls.__new__(cls)
        agent._set_up(config, env)
        return agent

    def _set_up(self, config: TrainConfig, source: EnvSource | None) -> None:
        from rl_training.experiment.envs import spaces_of
        from rl_training.runtime.acting import Actor
        from rl_training.runtime.rng import seed_globals

        if isinstance(source, gym.vector.VectorEnv):
            config = replace(config, env=replace(config.env, num_envs=source.num_envs))
        self.config, self.env_source = config, source
        if self.config.algo != self.name:
            raise ConfigError(f"This config is for {self.config.algo}, not {self.name}.", fix="Use rl_training.train(config)")
        self.observation_space, self.action_space, frames = spaces_of(self.config, self.env_source)
        self.obs_spec, self.action_spec = obs_spec(self.observation_space, frames), action_spec(self.action_space)
        self.check_actions()
        self.check_model()
        seed_globals(self.config.seed)
        self.parts = self.build(self.config, self.obs_spec, self.action_spec)
        self.actor = Actor(self.parts.algorithm.policy)
        self.rng = np.random.default_rng(self.config.seed)
        self.result: TrainResult | None = None
        self._used = False  # whether a run has filled the buffer

    def learn(self, total_steps: int | None = None, callbacks: Callback | Sequence[Callback] = (), **unknown: Any) -> Self:
        """Train in a new run directory under `config.output_dir`; `agent.result` then says where and how well.

        `total_steps` counts env steps. A second call starts a second run from the weights as they are now.
        """
        from rl_training.experiment.manager import Run

        if unknown:
            name = next(iter(unknown))
            known = "total_steps" if "step" in name else "total_steps, callbacks"
            raise ConfigError(f"learn() has no argument '{name}'.", fix=f"Use {known}; settings go to {type(self).__name__}(...)")
        if total_steps is not None:
            self.config = replace(self.config, total_steps=total_steps)
        if total_steps is not None or self._used:
            state = self.parts.algorithm.state_dict()
            self.parts = self.build(self.config, self.obs_spec, self.action_spec)  # schedules and buffers start anew
            self.parts.algorithm.load_state_dict(state)
        run = Run.create(self, callbacks)
        self._used = True
        self.result = run.train()
        return self

    def predict(self, obs: Any, deterministic: bool = True) -> np.ndarray:
        """The action for one observation, or a batch of actions for a batch of them, in the environment's own units."""
        canonical, batched = self.canonical(obs)
        self.actor.refresh()
        raw = self.in_units(self.actor.act(canonical, self.rng, TRAINED, explore=not deterministic))
        return raw if batched else raw[0]

    def canonical(self, obs: Any) -> tuple[Any, bool]:
        """Observations of the environment as the policy takes them, a batch of one if need be, and whether they were a batch."""
        from rl_training.envs.spaces import ObsTranslator, add_axis, is_batch

        batched = is_batch(obs, self.observation_space)
        translated = ObsTranslator(self.observation_space).batch(obs if batched else add_axis(obs))
        leaves = [np.asarray(a, leaf.dtype) for leaf, a in zip(self.obs_spec.leaves, self.obs_spec.arrays(translated))]
        return self.obs_spec.build(leaves), batched

    def in_units(self, action: np.ndarray) -> np.ndarray:
        """A batch of the policy's actions as the environment takes them."""
        from rl_training.envs.spaces import action_translator

        raw: np.ndarray = action_translator(self.action_space, len(action))(action)
        return raw

    def at_play(self, envs: Any) -> tuple[Any, Any]:
        """Who plays test episodes, and in what."""
        return self.actor, envs

    def play(self, envs: Any, episodes: int, index: int, deterministic: bool) -> Evaluation:
        """Test episodes in these environments; `index`, the step of training, tells their randomness from that of others."""
        from rl_training.runtime.evaluator import Evaluator

        actor, played = self.at_play(envs)
        return Evaluator(played, self.config.seed, deterministic).evaluate(actor, episodes, index)

    def evaluate(self, num_episodes: int = 20, deterministic: bool = True) -> Evaluation:
        """Play whole episodes on fresh environments; `.mean`, `.std` and `.returns` of the result are raw returns."""
        from rl_training.experiment.envs import evaluation_envs
        from rl_training.runtime.rng import preserved

        if num_episodes < 1:
            raise ConfigError(f"evaluate() needs at least one episode, not {num_episodes}.")
        with preserved():
            envs = evaluation_envs(self.config, self.env_source, num_episodes)
            try:
                return self.play(envs, num_episodes, TRAINED, deterministic)
            finally:
                envs.close()

    def save(self, path: str | Path) -> Path:
        """Write config and weights (with optimizer state) to a new folder; `load` reads it back."""
        from rl_training.experiment.saved_agents import save_agent

        return save_agent(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, env: EnvSource | None = None) -> Self:
        """An agent from a saved folder, or from a run directory (its best checkpoint). `env` replaces the recorded one."""
        from rl_training.experiment.saved_agents import load_agent

        return load_agent(cls, Path(path), env)

    @classmethod
    def resume(
        cls, run: str | Path, env: EnvSource | None = None, callbacks: Sequence[Callback] = (), **changes: Any
    ) -> Agent:
        """Continue an interrupted run to its end, bit for bit as if it had never stopped. `total_steps` may be changed."""
        from rl_training.experiment.manager import Run

        resumed = Run.resume(Path(run), cls, env, changes, callbacks)
        resumed.agent.result = resumed.train()
        return resumed.agent

    def check_actions(self) -> None:
        """Refuse an environment whose kind of action this algorithm cannot produce."""
        from rl_training.algorithms import REGISTRY

        accepted = REGISTRY[self.name].actions
        if self.action_spec.kind in accepted:
            return
        others = [n for n, e in REGISTRY.items() if self.action_spec.kind in e.actions and not e.needs_data]
        wanted = " or ".join(accepted)
        raise ConfigError(
            f"{self.name} needs {wanted} actions; {self.config.env_id} has {self.action_space}.",
            f"Works here: {', '.join(others)}.",
            f"Try: rl-training train {FIRST_CHOICE[self.action_spec.kind]} {self.config.env_id}",
        )

    def check_model(self) -> None:
        """Refuse settings of the networks that this algorithm would ignore."""
        for name in self.ignores:
            if getattr(self.config.model, name) != getattr(ModelConfig(), name):
                raise ConfigError(f"{self.name} makes no use of model.{name}.", fix=f"Leave out {name}")
        if self.config.model.noisy_sigma != ModelConfig().noisy_sigma and not self.config.model.noisy:
            sigma = self.config.model.noisy_sigma
            raise ConfigError(f"model.noisy_sigma = {sigma} has no effect while noisy is off.", fix="Add --model.noisy true")

    @staticmethod
    def check_minibatches(num_steps: int, num_envs: int, minibatches: int) -> None:
        """Rollouts must divide into equal minibatches: a short last one would weigh its rows more."""
        rows = num_steps * num_envs
        if rows % minibatches:
            near = sorted((n for n in range(1, rows + 1) if rows % n == 0), key=lambda n: abs(n - minibatches))[:3]
            raise ConfigError(
                f"num_steps x num_envs = {rows:,} rows do not divide into {minibatches} minibatches.",
                fix=f"Nearest for algorithm.minibatches: {', '.join(map(str, sorted(near)))}",
            )
