"""Steps the environments with the policy and hands out chunks of experience."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from rl_training.data.batch import Chunk, tree_map
from rl_training.envs.adapter import EnvAdapter, Transition
from rl_training.runtime.acting import Actor
from rl_training.runtime.exploration import LastingNormals
from rl_training.runtime.guard import check_chunk
from rl_training.runtime.rng import derive, stream
from rl_training.state import Tree


@dataclass(frozen=True)
class Episode:
    """A finished training episode: its raw return, the env step at which it ended, and its success where that is told."""

    step: int
    env: int
    length: int
    total: float
    success: bool | None = None


class Collector:
    """Owns the envs, their observations and the generator that acting draws from; without an actor it acts at random."""

    def __init__(
        self,
        envs: EnvAdapter,
        actor: Actor | None,
        seed: int,
        random_steps: int = 0,
        keep_outputs: bool = False,
        explore: bool = True,
        noise_correlation: float = 0.0,
    ) -> None:
        self.envs, self.actor, self.seed = envs, actor, seed
        self.random_steps, self.keep_outputs, self.explore = random_steps, keep_outputs, explore
        self.rng = stream(seed, "acting")
        if noise_correlation:
            self.rng = LastingNormals(self.rng, noise_correlation)
        self.steps = 0
        self.obs = envs.reset(derive(seed, "training envs"))
        self.returns = np.zeros(envs.num_envs)
        self.lengths = np.zeros(envs.num_envs, np.int64)
        self.episodes: list[Episode] = []
        self._chunk: Chunk = {}

    def collect(self, steps: int) -> Chunk:
        """Take `steps` steps in every env. The chunk's arrays are overwritten by the next call."""
        if self.actor is not None:
            self.actor.refresh()
        chunk = self._allocate(steps)
        first_step = self.steps
        for t in range(steps):
            if self.actor is None or self.steps < self.random_steps:
                action = self.envs.sample_actions(self.rng)
            else:
                outputs = self.actor.outputs(self.obs, self.rng if self.explore else None)
                action = self.actor.policy.choose(outputs, self.rng, self.steps, self.explore)
                if self.keep_outputs:
                    chunk["outputs"][t] = outputs
            _store(chunk["obs"], t, self.obs)
            result = self.envs.step(action)
            _store(chunk["next_obs"], t, result.next_obs)
            chunk["action"][t] = action
            chunk["reward"][t] = result.reward
            chunk["terminated"][t] = result.terminated
            chunk["truncated"][t] = result.truncated
            if result.valid is not None:
                chunk.setdefault("valid", np.ones(chunk["reward"].shape, np.bool_))[t] = result.valid
            elif "valid" in chunk:
                chunk["valid"][t] = True
            self.obs = result.obs
            self._track(result)
        check_chunk(chunk, self.envs.obs_spec, first_step)
        return chunk

    def _allocate(self, steps: int) -> Chunk:
        if not self._chunk or len(self._chunk["reward"]) != steps:
            lead = (steps, self.envs.num_envs)
            action = self.envs.action_spec
            self._chunk = {
                "obs": tree_map(lambda a: np.empty((steps, *a.shape), a.dtype), self.obs),
                "next_obs": tree_map(lambda a: np.empty((steps, *a.shape), a.dtype), self.obs),
                "action": np.empty(lead + action.shape, action.dtype),
                "reward": np.empty(lead, np.float32),
                "terminated": np.empty(lead, np.bool_),
                "truncated": np.empty(lead, np.bool_),
            }
            if self.keep_outputs and self.actor is not None:
                self._chunk["outputs"] = np.empty(lead + self.actor.outputs(self.obs).shape[1:], np.float32)
        return self._chunk

    def _track(self, result: Transition) -> None:
        """Episode statistics; rows that an autoreset made up count neither as steps nor as reward."""
        reward, valid, done = result.reward, result.valid, result.terminated | result.truncated
        self.returns += reward if valid is None else reward * valid
        self.lengths += 1 if valid is None else valid
        self.steps += self.envs.num_envs if valid is None else int(valid.sum())
        if done.any():
            for env in np.flatnonzero(done):
                success = None if result.success is None else bool(result.success[env])
                totals = int(self.lengths[env]), float(self.returns[env])
                self.episodes.append(Episode(self.steps, int(env), *totals, success))
            self.returns[done] = 0.0
            self.lengths[done] = 0
            if isinstance(self.rng, LastingNormals):
                self.rng.restart(done)

    def drain_episodes(self) -> list[Episode]:
        """Episodes finished since the last call."""
        finished, self.episodes = self.episodes, []
        return finished

    def state_dict(self) -> dict[str, Tree]:
        return {
            "envs": self.envs.state_dict(),
            "obs": self.obs,
            "rng": self.rng.bit_generator.state,
            "noise": self.rng.last if isinstance(self.rng, LastingNormals) else None,
            "steps": self.steps,
            "returns": self.returns,
            "lengths": self.lengths,
            "episodes": [list(astuple(e)) for e in self.episodes],
        }

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.envs.load_state_dict(state["envs"])
        self.obs = tree_map(np.array, state["obs"])
        self.rng.bit_generator.state = state["rng"]
        if isinstance(self.rng, LastingNormals):
            self.rng.last = None if state["noise"] is None else np.array(state["noise"])
        self.steps = state["steps"]
        self.returns, self.lengths = np.array(state["returns"]), np.array(state["lengths"])
        self.episodes = [Episode(*row) for row in state["episodes"]]
        if not self.envs.exact:
            # What cannot be captured starts new episodes; the broken-off ones count for nothing.
            self.obs = self.envs.reset(derive(self.seed, "resumed envs", self.steps))
            self.returns[:], self.lengths[:] = 0.0, 0
            if isinstance(self.rng, LastingNormals):
                self.rng.restart(np.ones(self.envs.num_envs, np.bool_))


def _store(target: Any, t: int, value: Any) -> None:
    if isinstance(target, dict):
        for key, array in target.items():
            array[t] = value[key]
    else:
        target[t] = value
