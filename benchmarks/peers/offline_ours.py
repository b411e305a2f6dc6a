"""Our side of the offline comparison: python offline_ours.py ALGO DATA eager|compile."""

import sys
from typing import Any

import torch
from pendulum import BATCH, GAMMA, HIDDEN, SHARED, TAU, UPDATES, WARM_UP, columns, timed

import rl_training
from rl_training.algorithms import find
from rl_training.data.dataset import Dataset
from rl_training.runtime.acting import Actor
from rl_training.runtime.learner import Learner
from rl_training.runtime.rng import seed_globals

torch.set_num_threads(1)
name, c, mode = sys.argv[1], columns(sys.argv[2]), sys.argv[3]
s = SHARED[name]
settings: dict[str, Any] = {
    "td3_bc": lambda: {"bc_alpha": s["alpha"]},
    "iql": lambda: {"expectile": s["expectile"], "beta": s["beta"], "max_weight": s["max_weight"], "actor_schedule": "constant"},
    "cql": lambda: {"actor_learning_rate": s["actor_learning_rate"], "penalty": s["weight"], "samples": s["actions"]},
}[name]()
common = {
    "hidden": HIDDEN, "batch_size": BATCH, "gamma": GAMMA, "tau": TAU, "learning_rate": s["learning_rate"], "init": "default",
}  # fmt: skip
agent: Any = find(name)("Pendulum-v1", dataset="made", offline_updates=UPDATES[name], **common | settings)
data = Dataset(**c, name="mixed", sha256="", source="made")  # type: ignore[arg-type]
seed_globals(0)
if agent.parts.algorithm.policy.normalizer is not None:
    agent.parts.algorithm.policy.normalizer.fit([torch.from_numpy(data.obs)], eps=1e-3)
learner = Learner(agent.parts.algorithm, mode=mode)
agent.actor = Actor(agent.parts.algorithm.policy)
buffer = agent.parts.offline(data)


def update() -> None:
    learner.algorithm.anneal(learner.updates / UPDATES[name])
    for batch in buffer.batches(1, learner.prepare):
        learner.update(batch)


assert WARM_UP > 2, "compiling belongs to the warm-up"
timed(name, update, lambda obs: agent.predict(obs) / 2.0, rl_training=rl_training.__version__, torch=torch.__version__)
