"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971): TD3 without its three remedies."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rl_training.algorithms.base import Algorithm
from rl_training.algorithms.replay import ContinuousReplayConfig
from rl_training.algorithms.td3 import TD3, TD3Algorithm, TD3Config
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import DeterministicPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(ContinuousReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor and critic", gt=0)
    tau: float = setting(0.005, help="how far the targets move at each update", gt=0, le=1)
    exploration_noise: float = setting(0.1, help="deviation of the noise on actions while collecting", ge=0)


class DDPG(TD3):
    """DDPG for continuous actions. `DDPG("Pendulum-v1", learning_rate=1e-3).learn(20_000)`."""

    name = "ddpg"
    config_class = DDPGConfig

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Algorithm:
        """TD3's with one critic, an actor that moves at every update, and target actions without noise."""
        c: DDPGConfig = config.algorithm
        plain = TD3Config(**asdict(c), policy_delay=1, target_noise=0.0)
        policy = DeterministicPolicy(obs, action, config.model, c.exploration_noise)
        return TD3Algorithm(plain, policy, EnsembleCritic(obs, action, config.model, members=1))
