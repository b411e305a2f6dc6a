"""d3rlpy's side of the offline comparison: python offline_d3rlpy.py ALGO DATA. Runs in an environment of its own."""

import sys

import d3rlpy
import numpy as np
import torch
from pendulum import BATCH, GAMMA, HIDDEN, SHARED, TAU, columns, timed

torch.set_num_threads(1)
d3rlpy.logging.set_log_context()
name, c = sys.argv[1], columns(sys.argv[2])
s = SHARED[name]
data = d3rlpy.dataset.MDPDataset(
    c["obs"], c["action"], c["reward"], c["terminated"].astype(np.float32), c["truncated"].astype(np.float32)
)
encoder = d3rlpy.models.VectorEncoderFactory(hidden_units=HIDDEN)
common = {
    "batch_size": BATCH, "gamma": GAMMA, "tau": TAU, "actor_encoder_factory": encoder, "critic_encoder_factory": encoder,
    "critic_learning_rate": s["learning_rate"], "actor_learning_rate": s.get("actor_learning_rate", s["learning_rate"]),
}  # fmt: skip
if name == "td3_bc":
    scaler = d3rlpy.preprocessing.StandardObservationScaler()
    config = d3rlpy.algos.TD3PlusBCConfig(alpha=s["alpha"], observation_scaler=scaler, **common)
elif name == "iql":
    config = d3rlpy.algos.IQLConfig(
        expectile=s["expectile"], weight_temp=s["beta"], max_weight=s["max_weight"], value_encoder_factory=encoder, **common
    )
else:
    config = d3rlpy.algos.CQLConfig(
        conservative_weight=s["weight"], n_action_samples=s["actions"], alpha_learning_rate=0.0, initial_alpha=1.0,
        temp_learning_rate=s["learning_rate"], **common,
    )  # fmt: skip
algo = config.create(device=False)
if config.observation_scaler is not None:
    config.observation_scaler.fit_with_transition_picker(data.episodes, data.transition_picker)
algo.build_with_dataset(data)


def update() -> None:
    algo.update(data.sample_transition_batch(BATCH))


timed(name, update, lambda obs: algo.predict(obs[None])[0], d3rlpy=d3rlpy.__version__, torch=torch.__version__)
