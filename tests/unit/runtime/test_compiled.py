"""Compiled updates: one program per layout of batch, called without the compiler's entry, with the results of the first call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim
from rl_training.runtime.accelerate import accelerate


class Fit(Algorithm):
    """Least squares: small enough that its compiled steps can be checked against its eager ones."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 1)
        self.optim = Optim(self, ["net"], 1e-2)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        noise = torch.randn(len(batch["x"]), 1, device=batch["x"].device)
        loss = (self.net(batch["x"]) + 0.1 * noise - batch["y"]).square().mean()
        return loss, {"loss": loss.detach()}

    def update(self, batch: Batch, twice: Any = False, **static: Any) -> Batch:
        out = self.optim.minimize("loss", batch)
        return self.optim.minimize("loss", batch) if twice else out


class Constant(Fit):
    def update(self, batch: Batch, **static: Any) -> Batch:
        return super().update(batch) | {"rate": 0.5}


def rows(count: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    return {"x": x, "y": x.sum(-1, keepdim=True), "unused": torch.arange(count)}


def transposed(count: int, seed: int) -> Batch:
    """The same shapes with other strides."""
    batch = rows(count, seed)
    return batch | {"x": batch["x"].T.contiguous().T}


@pytest.mark.slow
def test_a_compiled_update_follows_layouts_flags_and_new_batches() -> None:
    eager, compiled = Fit(), Fit()
    for algorithm in (eager, compiled):
        algorithm.bind()
    calls = [(rows(8, 1), False), (rows(8, 2), False), (rows(5, 3), False), (rows(8, 4), True)]
    calls += [(transposed(8, 5), False), (rows(8, 6), True)]
    results = []
    for algorithm, mode in ((eager, "eager"), (compiled, "compile")):
        step = accelerate(algorithm, mode)
        torch.manual_seed(1)
        with torch.enable_grad() if mode == "eager" else torch.no_grad():
            results.append([float(step(batch, [{"twice": twice}])[0]["loss"]) for batch, twice in calls])
    assert results[1] == pytest.approx(results[0], rel=1e-5)
    assert torch.allclose(eager.net.weight, compiled.net.weight, atol=1e-6)


@pytest.mark.slow
def test_a_metric_that_is_no_result_of_the_update_is_named() -> None:
    algorithm = Constant()
    algorithm.bind()
    with pytest.raises(TypeError, match="rate"):
        accelerate(algorithm, "compile")(rows(8, 1), [{}])


@pytest.mark.slow
def test_one_process_can_compile_any_number_of_agents() -> None:
    for seed in range(10):
        algorithm = Fit()
        algorithm.bind()
        assert accelerate(algorithm, "compile")(rows(4, seed), [{}])[0]["loss"].isfinite()


@pytest.mark.slow
def test_batches_that_are_drawn_are_drawn_alike_by_the_compiled_program() -> None:
    """Several updates in a row on batches that are made inside them."""
    table = rows(64, 1)

    def draw() -> Batch:
        index = (torch.rand(8, dtype=torch.float64) * 64).long()
        return {key: column[index] for key, column in table.items()}

    results = []
    for mode in ("eager", "compile"):
        algorithm = Fit()
        algorithm.bind()
        torch.manual_seed(1)
        results.append([float(out["loss"]) for out in accelerate(algorithm, mode)(draw, [{"twice": i == 1} for i in range(4)])])
    assert results[1] == pytest.approx(results[0], rel=1e-5)
