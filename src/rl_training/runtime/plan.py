"""Decides device, threads and acceleration. The choice depends on the config alone (and on whether there is a GPU), is printed,
and is written into the run's config, so that a run repeats; any of it can be set by hand."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import torch

from rl_training.config import RuntimeConfig
from rl_training.errors import ConfigError

# Compiling costs about 30 s of CPU once. It then saves about 0.5 ms per update of 64-unit networks and about 4 ms per update of
# 256-unit ones (benchmarks/README.md), so it pays after this many updates:
LARGE_NETWORK = 50_000  # parameters
PAYS_AFTER_SMALL, PAYS_AFTER_LARGE = 100_000, 15_000


@dataclass(frozen=True)
class Plan:
    """Resolved runtime settings and why they were chosen."""

    device: str
    accelerate: str
    reason: str


def make_plan(runtime: RuntimeConfig, parameters: int, updates: int) -> Plan:
    """Resolve `auto` for networks of `parameters` weights that will be updated `updates` times."""
    device = _device(runtime.device)
    if runtime.accelerate.endswith("graph") and device == "cpu":
        raise ConfigError(
            f"runtime.accelerate = {runtime.accelerate} captures CUDA graphs, and this run is on the CPU.",
            fix="Use --runtime.device cuda, or --runtime.accelerate compile or eager",
        )
    if runtime.matmul != "float32" and device == "cpu":
        raise ConfigError(
            f"runtime.matmul = {runtime.matmul} is a way of GPUs, and this run is on the CPU.",
            fix="Use --runtime.device cuda, or leave out matmul",
        )
    if runtime.accelerate != "auto":
        return Plan(device, runtime.accelerate, "as configured")
    if device != "cpu":
        return Plan(device, "graph", "a GPU waits for every launch that is not captured")
    needed = PAYS_AFTER_LARGE if parameters >= LARGE_NETWORK else PAYS_AFTER_SMALL
    if not has_compiler():
        return Plan(device, "eager", "no C++ compiler found, so updates are not compiled")
    if updates >= needed:
        return Plan(device, "compile", f"{updates:,} updates repay compiling, which takes half a minute")
    return Plan(device, "eager", f"{updates:,} updates would not repay compiling")


def _device(name: str) -> str:
    if name == "auto":
        # The networks of classic control and MuJoCo tasks are faster on the CPU than on a GPU that waits for each launch.
        return "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        build = "a CPU build" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}, but no GPU was found"
        raise ConfigError(
            f"No CUDA device: this torch ({torch.__version__}) is {build}.",
            fix="Use --device cpu, or install a CUDA build of torch from https://pytorch.org/get-started/locally",
        )
    try:
        torch.device(name)
    except RuntimeError:
        raise ConfigError(f"runtime.device = '{name}' is not a device.", fix="Use cpu, cuda or cuda:0") from None
    return name


def has_compiler() -> bool:
    """Whether torch.compile can build C++ code for the CPU here."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))
