"""Relabelled replay in whole runs: it resumes exactly, tells its successes, and refuses what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from combinations import switches
from outcome import differences, state_of
from test_registry import CrashAtCheckpoint, CrashError
from test_state_complete import CompareWithCopy
from tiny import small_settings

from rl_training import DQN, SAC, TD3
from rl_training.algorithms import REGISTRY, find
from rl_training.algorithms.replay import ReplayConfig
from rl_training.cli import main
from rl_training.data.relabel import Relabel
from rl_training.envs.goal_tasks import PointReach
from rl_training.errors import ConfigError

ENVS = {"continuous": "rl_training/PointReach-v0", "discrete": "rl_training/BitFlip-v0"}
NAMES = [name for name, entry in REGISTRY.items() if issubclass(find(name).config_class, ReplayConfig) and not entry.needs_data]


def make(name: str, folder: Path, relabel: str | None = "future", **changes: Any) -> Any:
    env_id = ENVS["continuous" if "continuous" in REGISTRY[name].actions else "discrete"]
    wanted = switches(name, ["relabel"]) | {"relabel": relabel} | changes
    settings = small_settings(name, total_steps=256, num_envs=2, output_dir=str(folder), **wanted)
    return find(name)(env_id, **settings)


@pytest.mark.parametrize(("name", "relabel"), [*((name, "future") for name in NAMES), ("sac", "final"), ("sac", "episode")])
def test_resumes_exactly(name: str, relabel: str, tmp_path: Path) -> None:
    straight = make(name, tmp_path, relabel, checkpoint_every=64, buffer_size=100).learn()
    with pytest.raises(CrashError):
        make(name, tmp_path, relabel, checkpoint_every=64, buffer_size=100).learn(callbacks=[CrashAtCheckpoint(2)])
    run_dir = next(path.parent for path in tmp_path.glob("*/run.json") if path.parent != straight.result.run_dir)
    np.random.seed(0)  # a new process has other global generators
    find(name).resume(run_dir)
    assert differences(state_of(straight.result.run_dir), state_of(run_dir)) == []


@pytest.mark.parametrize("backend", ["sync", "async"])
def test_a_reloaded_run_equals_the_run_it_was_saved_from(backend: str, tmp_path: Path) -> None:
    compare = CompareWithCopy(at=3)
    make("sac", tmp_path, checkpoint_every=70, eval_every=40, env_backend=backend).learn(callbacks=[compare])
    assert compare.found == [], "\n".join(compare.found[:20])


def test_the_new_goals_matter(tmp_path: Path) -> None:
    """A run that resumes exactly could do so without relabelling anything."""
    magnitudes = set()
    for relabel in (None, "future", "final", "episode"):
        parameters = make("sac", tmp_path, relabel).learn().parts.algorithm.parameters()
        magnitudes.add(float(sum(p.detach().abs().double().sum() for p in parameters)))
    assert len(magnitudes) == 4, magnitudes


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Near(PointReach):
    """Every goal is near: every episode succeeds."""

    def __init__(self) -> None:
        super().__init__(radius=9.0)

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        return obs, reward, False, True, {"is_success": True}


def test_successes_are_told_wherever_a_run_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = SAC(Near, **small_settings("sac", total_steps=100, relabel="future", output_dir=str(tmp_path))).learn()
    run = agent.result.run_dir
    assert agent.result.metrics["eval/success_rate"] == 1.0 == agent.evaluate(3).success_rate
    assert rows(run / "metrics.jsonl")[-1]["rollout/success_rate"] == 1.0
    assert rows(run / "evaluations.jsonl")[-1]["success_rate"] == 1.0
    assert rows(run / "episodes.jsonl")[0]["success"] is True

    failing = make("dqn", tmp_path, None, num_episodes=4).learn().result.run_dir
    capsys.readouterr()
    assert main(["eval", str(failing), "--episodes", "4"]) == 0
    assert "over 4 episodes, 0% successful" in capsys.readouterr().out
    summary = json.loads((failing / "eval" / "summary.json").read_text())
    assert (summary["success_rate"], summary["successes"]) == (0.0, [False] * 4)
    assert main(["report", str(failing)]) == 0
    assert "0%</b>of these episodes were successful" in (failing / "report.html").read_text()


def test_where_no_success_is_told_none_is_made_up(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", **small_settings("dqn", total_steps=200, output_dir=str(tmp_path))).learn()
    assert agent.evaluate(2).success_rate is None and "eval/success_rate" not in agent.result.metrics
    assert "success" not in rows(agent.result.run_dir / "episodes.jsonl")[0], "as it always was"
    assert "successful" not in str(agent.evaluate(2))


def vector() -> Any:
    return gym.vector.SyncVectorEnv([PointReach] * 2)


def test_a_vector_env_of_the_users_own_is_asked_for_its_rewards(tmp_path: Path) -> None:
    settings = small_settings("td3", total_steps=128, relabel="future", num_episodes=0, output_dir=str(tmp_path))
    agent = TD3(lambda: gym.wrappers.TimeLimit(PointReach(), 9), **settings).learn()
    assert agent.parts.buffer.relabel.judge is not None
    agent = TD3(vector(), **settings).learn()
    assert agent.parts.buffer.relabel.judge.name == "PointReach"



MISTAKES = {
    "no goals": (lambda out: SAC("Pendulum-v1", relabel="future"), "relabel = future needs observations with 'achieved_goal'"),
    "a typo": (lambda out: DQN(ENVS["discrete"], relabel="futur"), "Did you mean future"),
    "n-step": (lambda out: DQN(ENVS["discrete"], relabel="final", n_step=3), "cannot be combined with algorithm.n_step = 3"),
    "priorities": (lambda out: DQN(ENVS["discrete"], relabel="final", priority=0.6), "combined with algorithm.priority = 0.6"),
    "a dataset": (lambda out: SAC(ENVS["continuous"], relabel="future", dataset="x"), "cannot be combined with dataset = x"),
    "another reward": (
        lambda out: SAC(lambda: gym.wrappers.TransformReward(PointReach(), lambda r: r + 1), relabel="future", output_dir=out,
                        progress="quiet").learn(), "Make both agree"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_clear_message_and_leave_nothing(name: str, tmp_path: Path) -> None:
    run, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as refused:
        run(str(tmp_path))
    assert expected in str(refused.value), str(refused.value)
    assert not list(tmp_path.iterdir()), "no run directory for what never ran"


def test_every_drawn_batch_is_relabelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, original = [], Relabel.__call__

    def counted(self: Relabel, batch: Any, index: Any, rng: Any) -> Any:
        calls.append(len(index))
        return original(self, batch, index, rng)

    monkeypatch.setattr(Relabel, "__call__", counted)
    agent = make("dqn", tmp_path).learn()
    assert calls == [32] * int(agent.result.metrics["updates"])
