"""The environments of a run: for training, for evaluation, or just their spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from rl_training.config import TrainConfig
from rl_training.envs.adapter import EnvAdapter
from rl_training.envs.factory import choose_backend, make_env, make_vector_env
from rl_training.envs.goal_reward import GoalReward
from rl_training.errors import ConfigError
from rl_training.runtime.rng import preserved

MAX_EVALUATION_ENVS = 10
UNKNOWN_LIMIT = 1000  # the steps after which D4RL takes episodes to be cut


@dataclasses.dataclass(frozen=True)
class _EnvRequest:
    """A config whose `env_id` may also be a callable."""

    env_id: Any
    env: Any


def env_name(env: Any) -> str:
    """What to call an environment that the user passed as an object."""
    if isinstance(env, str):
        return env
    if isinstance(env, gym.vector.VectorEnv):
        return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    return getattr(env, "__name__", type(env).__name__)


def spaces_of(config: TrainConfig, source: Any) -> tuple[gym.Space[Any], gym.Space[Any], int]:
    """Observation and action space of one environment, and how many frames its image observations stack."""
    if isinstance(source, gym.vector.VectorEnv):
        return source.single_observation_space, source.single_action_space, getattr(source, "stack_num", 1)
    if choose_backend(source or config.env_id, config.env.backend, 1, config.env.kwargs) in ("ale", "envpool"):
        # These preprocess inside: their observations are not those of gymnasium.make.
        envs = _adapter(config, source, 1).envs
        try:
            return envs.single_observation_space, envs.single_action_space, getattr(envs, "stack_num", 1)
        finally:
            envs.close()
    env = make_env(source or config.env_id, kwargs=config.env.kwargs)
    try:
        return env.observation_space, env.action_space, _frames(env)
    finally:
        env.close()


def _frames(env: gym.Env[Any, Any]) -> int:
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.FrameStackObservation):
            return env.stack_size
        env = env.env
    return 1


def training_envs(config: TrainConfig, source: Any) -> EnvAdapter:
    """The vector env that experience is collected from."""
    if isinstance(source, gym.vector.VectorEnv):
        return EnvAdapter(source, step_timeout=config.env.step_timeout)
    return _adapter(config, source, config.env.num_envs)


def evaluation_envs(config: TrainConfig, source: Any, episodes: int) -> EnvAdapter:
    """Separate envs for test episodes, in this process; those of a user's vector env are made as its first sub-env was."""
    if isinstance(source, gym.vector.VectorEnv):
        source = _maker_of(source)
    chosen = choose_backend(source or config.env_id, config.env.backend, 1, config.env.kwargs)
    backend = "sync" if chosen == "async" else chosen
    # ALE's vector env clips rewards unless told otherwise; test episodes count raw ones.
    kwargs = config.env.kwargs | ({"reward_clipping": False} if backend == "ale" else {})
    config = dataclasses.replace(config, env=dataclasses.replace(config.env, backend=backend, kwargs=kwargs))
    return _adapter(config, source, episodes if backend == "native" else min(episodes, MAX_EVALUATION_ENVS))


def goal_reward(config: TrainConfig, source: Any) -> GoalReward:
    """What goals are worth in the environment of a run, asked of a copy of its own."""
    with preserved():
        if isinstance(source, gym.vector.VectorEnv):
            return GoalReward(_maker_of(source)())
        return GoalReward(make_env(source or config.env_id, kwargs=config.env.kwargs))


def _maker_of(envs: gym.vector.VectorEnv[Any, Any, Any]) -> Callable[[], gym.Env[Any, Any]]:
    base, spec = envs.unwrapped, envs.spec
    if hasattr(base, "env_fns"):
        maker: Callable[[], gym.Env[Any, Any]] = base.env_fns[0]
        return maker
    if spec is not None:
        of_the_vector = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers")
        kwargs = {key: value for key, value in spec.kwargs.items() if key not in of_the_vector}
        return lambda: gym.make(spec.id, **kwargs)
    raise ConfigError(
        f"There is no way to make test environments like those of {type(base).__name__}.",
        fix="Pass a function that makes one environment, or turn evaluation off: num_episodes=0",
    )


def time_limit(config: TrainConfig) -> int:
    """Steps after which episodes are cut, where the environment's registration says so; else what D4RL assumes."""
    try:
        return gym.spec(config.env_id).max_episode_steps or UNKNOWN_LIMIT
    except gym.error.Error:
        return UNKNOWN_LIMIT


def _adapter(config: TrainConfig, source: Any, num_envs: int) -> EnvAdapter:
    backend = choose_backend(source or config.env_id, config.env.backend, num_envs, config.env.kwargs)
    request = _EnvRequest(source or config.env_id, dataclasses.replace(config.env, backend=backend))
    return EnvAdapter(make_vector_env(request, num_envs, copy=False), step_timeout=config.env.step_timeout)
