"""Relabelled batches against whole episodes kept in lists, row by row; and that the check notices the classic bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data import relabel
from rl_training.data.relabel import Relabel
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, Leaf, ObsSpec

PARTS = (("achieved_goal", (2,)), ("desired_goal", (2,)), ("observation", (3,)))
OBS = ObsSpec(tuple(Leaf(key, shape, "float32") for key, shape in PARTS))
ACTION = ActionSpec("continuous", dim=1)
GAMMA = 0.9
GOAL_ROWS = relabel._goal_rows


def judge(achieved: Any, desired: Any) -> tuple[Any, Any]:
    """Rewards that differ for every pair of goals, and an end where they are equal."""
    assert achieved.dtype == desired.dtype == np.float32 and achieved.shape == desired.shape and achieved.ndim == 2
    return (achieved[:, 0] - 3 * desired[:, 0]).astype(np.float32), (achieved == desired).all(-1)


class Episodes:
    """Every step ever taken, by env, with the number of its episode. What was achieved is told by the step's number."""

    def __init__(self, envs: int, seed: int, end: float) -> None:
        self.envs, self.end, self.rng = envs, end, np.random.default_rng(seed)
        self.steps: list[list[dict[str, Any]]] = [[] for _ in range(envs)]
        self.episode = list(range(envs))

    def goal(self, number: int) -> np.ndarray:
        return np.array([number, -number], np.float32)

    def take(self, length: int, made_up: bool = False) -> dict[str, Any]:
        """A chunk of `length` steps in every env."""
        for env, steps in enumerate(self.steps):
            for _ in range(length):
                last = steps[-1] if steps else None
                after_end = last is not None and (last["terminated"] or last["truncated"])
                fresh = last is None or after_end or not last["valid"]
                if fresh:
                    self.episode[env] += self.envs
                valid = not (made_up and after_end)
                kind = self.rng.random() if valid else 1.0
                number = (len(steps) + 1) * self.envs + env
                steps.append({
                    "episode": self.episode[env] if valid else -1, "valid": valid,
                    "terminated": kind < self.end, "truncated": self.end <= kind < 2 * self.end,
                    "reward": self.rng.standard_normal(), "action": self.rng.uniform(-1, 1, 1),
                    "obs": {
                        "achieved_goal": self.goal(-number if fresh else number - self.envs),
                        "desired_goal": self.goal(-1000 - self.episode[env]), "observation": self.rng.standard_normal(3),
                    },
                    "next_obs": {
                        "achieved_goal": self.goal(number), "desired_goal": self.goal(-1000 - self.episode[env]),
                        "observation": self.rng.standard_normal(3),
                    },
                })  # fmt: skip
        def column(name: str, part: str = "") -> np.ndarray:
            rows = [[s[-length + t][name] for s in self.steps] for t in range(length)]
            return np.array([[cell[part] if part else cell for cell in row] for row in rows])

        flags = {name: column(name) for name in ("terminated", "truncated")} | ({"valid": column("valid")} if made_up else {})
        observations = {name: {key: column(name, key).astype(np.float32) for key, _ in PARTS} for name in ("obs", "next_obs")}
        numbers = {name: column(name).astype(np.float32) for name in ("reward", "action")}
        return flags | observations | numbers

    def at(self, row: int, ring: int) -> tuple[int, int]:
        """The env and the step's place in its list, for a row of a ring of `ring` steps."""
        slot, env = divmod(row, self.envs)
        newest = len(self.steps[env]) - 1
        return env, newest - (newest - slot) % ring

    def candidates(self, row: int, ring: int, strategy: str) -> list[float]:
        """What may become the goal of a row: numbers of steps of its episode."""
        env, at = self.at(row, ring)
        steps = self.steps[env]
        oldest = max(0, len(steps) - ring)
        mine = [i for i in range(oldest, len(steps)) if steps[i]["episode"] == steps[at]["episode"]]
        chosen = {"future": [i for i in mine if i >= at], "final": mine[-1:], "episode": mine}[strategy]
        return [float(steps[i]["next_obs"]["achieved_goal"][0]) for i in chosen]


def make(envs: int, capacity: int, strategy: str, ratio: float = 0.8, judged: Any = judge) -> ReplayBuffer:
    buffer = ReplayBuffer(OBS, ACTION, capacity=capacity, num_envs=envs, gamma=GAMMA, relabel=strategy, relabel_ratio=ratio)
    assert buffer.relabel is not None
    buffer.relabel.judge = judged
    return buffer


def check(buffer: ReplayBuffer, episodes: Episodes, strategy: str, ratio: float = 0.8, count: int = 300) -> None:
    """One batch, row by row."""
    ring, batch = buffer.storage.steps, buffer.sample(count)
    relabelled = 0
    for b, row in enumerate(batch["index"].tolist()):
        env, at = episodes.at(row, ring)
        step = episodes.steps[env][at]
        assert step["valid"], "a made-up row was sampled"
        achieved, goal = batch["next_obs"]["achieved_goal"][b].numpy(), batch["obs"]["desired_goal"][b].numpy()
        reward, end = step["reward"], step["terminated"]
        if b < round(ratio * count):
            relabelled += 1
            allowed = episodes.candidates(row, ring, strategy)
            assert goal[0] in allowed, f"row {row}: goal {goal} is not among {allowed}"
            np.testing.assert_array_equal(goal, episodes.goal(int(goal[0])))
            (reward,), (end,) = judge(achieved[None], goal[None])
        else:
            np.testing.assert_array_equal(goal, step["obs"]["desired_goal"])
        np.testing.assert_array_equal(batch["next_obs"]["desired_goal"][b], goal)
        assert float(batch["reward"][b]) == pytest.approx(float(reward), rel=1e-6), f"row {row}"
        assert float(batch["discount"][b]) == pytest.approx(0.0 if end else GAMMA), f"row {row}: truncation is no end"
        assert float(batch["action"][b, 0]) == pytest.approx(float(step["action"][0]))
        for name in ("obs", "next_obs"):
            for key in ("achieved_goal", "observation"):
                np.testing.assert_allclose(batch[name][key][b], step[name][key], rtol=1e-6)
    assert relabelled == round(ratio * count)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), envs=st.integers(1, 3), capacity=st.integers(2, 90), made_up=st.booleans(),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12), end=st.sampled_from([0.0, 0.05, 0.3, 0.5]),
    strategy=st.sampled_from(["future", "final", "episode"]), ratio=st.sampled_from([0.0, 0.5, 0.8, 1.0]),
)  # fmt: skip
def test_every_row_is_as_its_episode_says(
    seed: int, envs: int, capacity: int, made_up: bool, lengths: list[int], end: float, strategy: str, ratio: float
) -> None:
    episodes, buffer = Episodes(envs, seed, end), make(envs, capacity, strategy, ratio)
    lengths = [min(length, buffer.storage.steps) for length in lengths]
    for length in lengths:
        buffer.add(episodes.take(length, made_up))
    if buffer.storage.rows[: len(buffer.storage), -1].any():
        check(buffer, episodes, strategy, ratio, count=60)


def full_ring(strategy: str) -> tuple[ReplayBuffer, Episodes]:
    """A ring of 60 steps of 2 envs, written 2.5 times over, with episodes of about 6 steps that end both ways."""
    episodes, buffer = Episodes(2, 0, 0.08), make(2, 120, strategy)
    for _ in range(30):
        buffer.add(episodes.take(5))
    return buffer, episodes


def other_episode(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    return call(self, batch, index, rng, rows=lambda rows, index, *rest: rng.permutation(index))


def the_past(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    return call(self, batch, index, rng, rows=lambda *args: GOAL_ROWS(*args[:5], 2, args[6]))


def beyond_the_end(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    steps = self.storage.steps * self.storage.envs
    return call(self, batch, index, rng, rows=lambda rows, index, *rest: (index + self.storage.envs) % steps)


def before_the_step(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    after, start = self._achieved, self.storage.obs_size + self.storage.action_size
    self._achieved = slice(after.start - start, after.stop - start)
    return call(self, batch, index, rng)


def reward_kept(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    reward = batch["reward"].clone()
    return call(self, batch, index, rng) | {"reward": reward}


def end_kept(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    discount = batch["discount"].clone()
    return call(self, batch, index, rng) | {"discount": discount}


def successor_kept(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    successor = {key: part.clone() for key, part in batch["next_obs"].items()}
    return call(self, batch, index, rng) | {"next_obs": successor}


def judged_before_the_step(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    count = round(self.ratio * len(index))
    self.judge = lambda achieved, desired: judge(batch["obs"]["achieved_goal"][:count].numpy(), desired)
    return call(self, batch, index, rng)


def everything_relabelled(call: Any, self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
    self.ratio = 1.0
    return call(self, batch, index, rng)


BUGS = [other_episode, the_past, beyond_the_end, before_the_step, reward_kept, end_kept, successor_kept,
        judged_before_the_step, everything_relabelled]  # fmt: skip


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_a_full_ring_with_both_kinds_of_ends(strategy: str) -> None:
    buffer, episodes = full_ring(strategy)
    ends = [(s["terminated"], s["truncated"]) for steps in episodes.steps for s in steps[-60:]]
    assert min(sum(e[0] for e in ends), sum(e[1] for e in ends)) >= 3, "the test would prove nothing"
    for _ in range(5):
        check(buffer, episodes, strategy)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_check_notices(bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, episodes = full_ring("future")
    original = Relabel.__call__

    def call(self: Relabel, batch: Any, index: Any, rng: Any, rows: Any = GOAL_ROWS) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(relabel, "_goal_rows", rows)
            return original(self, batch, index, rng)

    monkeypatch.setattr(Relabel, "__call__", lambda self, *args: bug(call, self, *args))
    with pytest.raises(AssertionError):
        for _ in range(5):
            check(buffer, episodes, "future")


def test_four_steps_by_hand() -> None:
    """Achieved 1, 2, 3, 4: step 2 may get 3 or 4; the last only 4, which it has reached."""
    episodes, buffer = Episodes(1, 0, 0.0), make(1, 10, "future")
    data = episodes.take(4)
    data["truncated"][-1] = True
    buffer.add(data)
    goals: dict[int, Counter[float]] = {row: Counter() for row in range(4)}
    for _ in range(20):
        batch = buffer.sample(1000)
        for row, goal in zip(batch["index"][:800].tolist(), batch["obs"]["desired_goal"][:800, 0].tolist()):
            goals[row][goal] += 1
        stored = batch["obs"]["desired_goal"][:, 0] < 0
        assert stored.sum() == 200 and stored[800:].all(), "four fifths are relabelled"
        assert (batch["discount"][:800][batch["index"][:800] == 3] == 0).all(), "the last step always succeeds"
        assert (batch["discount"][800:] == pytest.approx(GAMMA)), "cut off by time: not terminal"
    start = float(data["next_obs"]["achieved_goal"][0, 0, 0]) - 1
    for row, counts in goals.items():
        assert {goal - start for goal in counts} == {float(n) for n in range(row + 1, 5)}, (row, counts)
        share = np.array(list(counts.values())) / sum(counts.values())
        np.testing.assert_allclose(share, 1 / (4 - row), atol=0.03)


def test_a_running_episode_goes_up_to_its_newest_step_and_a_cut_ends_it() -> None:
    episodes, buffer = Episodes(1, 0, 0.0), make(1, 50, "final")
    buffer.add(episodes.take(3))
    newest = episodes.steps[0][2]["next_obs"]["achieved_goal"][0]
    assert set(buffer.sample(50)["obs"]["desired_goal"][:40, 0].tolist()) == {newest}
    buffer.cut()
    buffer.add(episodes.take(4))
    batch = buffer.sample(200)
    before = batch["index"][:160] < 3
    assert set(batch["obs"]["desired_goal"][:160, 0][before].tolist()) == {newest}, "not beyond the cut"


def test_without_terminations_of_its_own_the_stored_ones_stay() -> None:
    episodes, buffer = Episodes(1, 1, 0.1), make(1, 40, "future", judged=lambda a, d: (judge(a, d)[0], None))
    buffer.add(episodes.take(40))
    batch = buffer.sample(200)
    ends = torch.tensor([episodes.steps[0][row]["terminated"] for row in batch["index"].tolist()])
    assert ends.any() and torch.equal(batch["discount"] == 0, ends)


def test_a_restored_buffer_draws_the_same() -> None:
    buffer, _ = full_ring("future")
    state = buffer.state_dict() | {"rng": dict(buffer.rng.bit_generator.state)}
    other = make(2, 120, "future")
    other.load_state_dict(state)
    for _ in range(3):
        one, two = buffer.sample(64), other.sample(64)
        assert torch.equal(one["obs"]["desired_goal"], two["obs"]["desired_goal"]) and torch.equal(one["reward"], two["reward"])


def test_relabelled_rows_are_drawn_on_the_host() -> None:
    buffer, _ = full_ring("future")
    buffer.reside(torch.device("cpu"))
    assert buffer.resident is None


@pytest.mark.parametrize(
    ("leaves", "shown"),
    [
        ([Leaf("", (3,), "float32")], "These have no parts"),
        ([Leaf("observation", (3,), "float32")], "These have 'observation'"),
        ([Leaf("achieved_goal", (3,), "float32"), Leaf("desired_goal", (2,), "float32")], "arrays of one shape"),
        ([Leaf("achieved_goal", (1, 9, 9), "uint8"), Leaf("desired_goal", (1, 9, 9), "uint8")], "arrays of one shape"),
    ],
)
def test_observations_without_goals_are_refused(leaves: list[Leaf], shown: str) -> None:
    with pytest.raises(ConfigError, match="needs observations with 'achieved_goal'") as refused:
        ReplayBuffer(ObsSpec(tuple(leaves)), ACTION, capacity=10, relabel="future")
    assert shown in str(refused.value), str(refused.value)
