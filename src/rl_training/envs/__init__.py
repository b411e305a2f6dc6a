"""Environments: making them by name, stepping many of them, one form of transition, and capturing their state.

    from rl_training.envs import make_env, make_vector_env, EnvAdapter
"""

from rl_training.envs.adapter import EnvAdapter, Transition
from rl_training.envs.factory import choose_backend, make_env, make_vector_env
from rl_training.envs.names import env_ids

__all__ = ["EnvAdapter", "Transition", "choose_backend", "env_ids", "make_env", "make_vector_env"]
