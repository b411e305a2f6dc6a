"""What `--policy` takes: who acts, as the user wrote it, and who that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_training.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rl_training.agent import Agent
    from rl_training.config import TrainConfig
    from rl_training.experiment.recording import Source

OPTIONS = "share=S, noise=P, greedy, replay"


@dataclass(frozen=True)
class Policy:
    """One `--policy`: its text, the source named there, and its options."""

    text: str
    name: str
    share: float | None = None
    noise: float = 0.0
    greedy: bool = False
    replay: bool = False

    @property
    def trained(self) -> bool:
        return self.name not in ("random", "scripted") and not self.name.startswith("file:")


def parse(text: str) -> Policy:
    """`scripted,noise=0.5,share=0.4` as a Policy."""
    name, *options = text.split(",")
    policy = Policy(text, name, **_options(text, options))
    if not name:
        raise ConfigError(f"--policy {text} names no source.", fix="Write for example: --policy random,share=0.5")
    if (policy.greedy or policy.replay) and not policy.trained:
        word = "greedy" if policy.greedy else "replay"
        raise ConfigError(f"--policy {text}: {word} is for trained agents, which {name} is not.", fix=f"Leave out ,{word}")
    if policy.replay and (policy.noise or policy.greedy):
        raise ConfigError(
            f"--policy {text}: the steps of a replay buffer are taken as they were collected.", fix="Leave out noise and greedy"
        )
    return policy


def steps_of(policies: Sequence[Policy], total: int) -> list[int]:
    """How many of `total` steps each policy takes; what the given shares leave over is for the others, in equal parts."""
    given = sum(policy.share or 0.0 for policy in policies)
    open_ = sum(policy.share is None for policy in policies)
    if given > 1 + 1e-9 or (not open_ and given < 1 - 1e-9) or (open_ and given > 1 - 1e-9):
        left = " and leave nothing for the others" if open_ and given <= 1 + 1e-9 else ""
        raise ConfigError(
            f"The shares add up to {given:g}{left}.", "They are parts of --steps, so together they make 1.",
            "Mend the shares, or leave them out: then all are equal",
        )  # fmt: skip
    shares = [policy.share if policy.share is not None else (1.0 - given) / open_ for policy in policies]
    ends = [round(total * sum(shares[: i + 1])) for i in range(len(shares))]
    steps = [end - start for start, end in zip([0, *ends], ends)]
    if 0 in steps:
        raise ConfigError(f"--policy {policies[steps.index(0)].text} would take none of {total} steps.", fix="Give more --steps")
    return steps


def source_of(policy: Policy, steps: int, config: TrainConfig, agent: Agent | None) -> Source:
    """The behaviour that a policy names; `agent` is what was loaded for a trained one."""
    from rl_training.envs.scripted import CONTROLLERS, Controller
    from rl_training.experiment.behaviour import user_controller
    from rl_training.experiment.recording import Source

    who: Agent | Controller | None = agent
    if policy.name == "scripted":
        who = CONTROLLERS.get(config.env_id)
        if who is None:
            raise ConfigError(
                f"There is no scripted controller for {config.env_id}.", f"There is one for {', '.join(CONTROLLERS)}.",
                "Write your own and name it: --policy file:my_policy.py:act",
            )  # fmt: skip
    elif policy.name.startswith("file:"):
        who = user_controller(policy.name)
    return Source(who, steps, not policy.greedy, policy.noise, policy.name)


def folder_of(policy: Policy) -> Path:
    """The checkpoint of a trained policy: of a run its best one, and for its replay the newest."""
    from rl_training.cli.evaluate import find

    try:
        return find(policy.name, last=policy.replay)
    except ConfigError as error:
        known = did_you_mean(policy.name, ("random", "scripted"))
        sources = "A policy is random, scripted, file:my_policy.py:act, or a run, checkpoint or saved agent."
        raise ConfigError(f"--policy {policy.text}: {error.what} {known}".rstrip(), error.why or sources, error.fix) from error


def _options(text: str, options: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in options:
        key, _, value = option.partition("=")
        if option in ("greedy", "replay"):
            found[option] = True
        elif key in ("share", "noise"):
            found[key] = _part(text, key, value)
        else:
            hint = did_you_mean(key, ("share", "noise", "greedy", "replay"))
            raise ConfigError(f"--policy {text}: unknown option '{option}'. {hint}".rstrip(), fix=f"Options: {OPTIONS}")
    return found


def _part(text: str, key: str, value: str) -> float:
    try:
        part = float(value)
    except ValueError:
        part = -1.0
    if not 0.0 <= part <= 1.0:
        raise ConfigError(f"--policy {text}: {key} = '{value}' is not a number from 0 to 1.", fix=f"Write for example {key}=0.5")
    return part
