"""An option changes what is learned or is refused by name: no algorithm takes one and ignores it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from combinations import COMBINATIONS, EXCLUSIVE, NONE, OPTIONS, REFUSED, default, switches
from numpy.typing import NDArray
from tiny import NAMES, Maker

from rl_training.errors import ConfigError

TAKEN = [cell for cell, outcome in COMBINATIONS.items() if outcome not in (REFUSED, NONE)]
Outputs = NDArray[np.float32]


def maker(make: Maker, settings: Any) -> Callable[..., Any]:
    """Where settings are tried: goals are relabelled where there are some."""
    return make.goals if "relabel" in settings else make.standard


def train(make: Maker, name: str, **settings: Any) -> tuple[Outputs, Outputs]:
    """What the policy gives for some observations before and after a short run."""
    agent = maker(make, settings)(name, steps=192, learning_rate=1e-2, **settings)
    grid = np.linspace(-1.0, 1.0, 5, dtype=np.float32)
    obs = agent.obs_spec.build([np.multiply.outer(grid, np.ones(leaf.shape, leaf.dtype)) for leaf in agent.obs_spec.leaves])
    before = agent.actor.outputs(obs)
    agent.learn()
    assert agent.result.metrics["updates"] >= 2, agent.result.metrics
    return before, agent.actor.outputs(obs)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory, data: Callable[[str], Path]) -> Callable[..., Outputs]:
    """What a policy gives after training with these settings; the same run is made once."""
    make, known = Maker(tmp_path_factory.mktemp("runs"), data), {}

    def get(name: str, **settings: Any) -> Outputs:
        key = (name, "relabel" in settings, *(item for item in settings.items() if default(name, item[0]) != item[1]))
        if key not in known:
            before, known[key] = train(make, name, **settings)
            assert np.isfinite(known[key]).all() and not np.array_equal(before, known[key]), f"{name} {settings} learned nothing"
        return known[key]

    return get


@pytest.mark.parametrize(("name", "option"), TAKEN)
def test_an_option_changes_what_is_learned(name: str, option: str, outputs: Callable[..., Outputs]) -> None:
    on = switches(name, [option])
    off = on | {OPTIONS[option].setting: OPTIONS[option].off}
    assert not np.array_equal(outputs(name, **on), outputs(name, **off)), f"{name} takes {option} and ignores it"


@pytest.mark.parametrize(("name", "option"), [cell for cell, outcome in COMBINATIONS.items() if outcome == REFUSED])
def test_a_refused_option_is_an_error_that_names_it(name: str, option: str, make: Maker) -> None:
    wanted = OPTIONS[option]
    with pytest.raises(ConfigError, match=rf"\b{wanted.setting}\b"):
        make.standard(name, **{wanted.setting: wanted.on}).learn()


@pytest.mark.parametrize("without", ["block=residual", "layer_norm"])
@pytest.mark.parametrize("goals", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_all_options_that_go_together_do(name: str, goals: bool, without: str, outputs: Callable[..., Outputs]) -> None:
    left_out = {without, *(("n_step", "priority", "normalize_obs") if goals else ("relabel",))}
    outputs(name, **switches(name, [option for n, option in TAKEN if n == name and option not in left_out]))


@pytest.mark.parametrize(("name", "one", "other"), [
    (name, one, other) for name in NAMES for one, other in EXCLUSIVE if {(name, one), (name, other)} <= set(TAKEN)
])  # fmt: skip
def test_options_that_exclude_each_other_are_refused(name: str, one: str, other: str, make: Maker) -> None:
    settings = switches(name, [one, other])
    with pytest.raises(ConfigError, match=rf"\b{OPTIONS[other].setting}\b"):
        maker(make, settings)(name, **settings)
