"""`rl-training doctor`: what is installed, what is missing, and the command that mends it."""

from __future__ import annotations

import importlib.util
import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path

from rl_training.cli.parser import Parser
from rl_training.errors import StorageError

CORE = ("torch", "numpy", "gymnasium", "numba", "PyYAML", "safetensors", "tensorboard", "rich")
# extra of the package -> the modules it brings and what it is for
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "atari": (("ale_py",), "Atari games"),
    "mujoco": (("mujoco",), "MuJoCo tasks such as HalfCheetah-v5"),
    "box2d": (("Box2D",), "LunarLander, BipedalWalker, CarRacing"),
    "robotics": (("gymnasium_robotics",), "goal tasks such as FetchReach-v4"),
    "envpool": (("envpool",), "environments stepped in C++"),
    "minari": (("minari", "h5py"), "offline datasets"),
    "wandb": (("wandb",), "Weights & Biases"),
    "tune": (("optuna",), "hyperparameter search"),
    "plots": (("matplotlib",), "figures for papers"),
    "onnx": (("onnx", "onnxscript", "onnxruntime"), "export of policies"),
}


def run(arguments: list[str]) -> int:
    parser = Parser("doctor", "Look at this installation and machine.")
    parser.add_argument("--output-dir", default="runs", metavar="DIR", help="where runs are to go (default: runs)")
    options = parser.parse_args(arguments)
    print("\n".join([*_packages(), "", *_machine(), "", *_extras(), ""]))
    problem = _storage_problem(Path(options.output_dir))
    print(f"{'runs':<12} {problem or f'{options.output_dir}: can be written, rename and fsync work'}")
    return StorageError.exit_code if problem else 0


def _packages() -> list[str]:
    from rl_training import __version__

    lines = [f"{'rl-training':<12} {__version__}", f"{'python':<12} {platform.python_version()}"]
    for name in CORE:
        try:
            lines.append(f"{name.lower():<12} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name.lower():<12} missing: pip install rl-training")
    return lines


def _machine() -> list[str]:
    import torch

    from rl_training.experiment.memory import available_bytes
    from rl_training.runtime.plan import has_compiler

    compiler = "found" if has_compiler() else "none: runs are not compiled (Debian, Ubuntu: apt install g++)"
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [
        f"{'cpu':<12} {platform.machine()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores usable",
        f"{'threads':<12} torch uses {torch.get_num_threads()} by default; runs use runtime.threads (1)",
        f"{'memory':<12} {available_bytes() / 1e9:.1f} GB free",
        f"{'gpu':<12} {', '.join(gpus) or f'none that torch {torch.__version__} can use'}",
        f"{'compiler':<12} C++ {compiler} (for runtime.accelerate = compile)",
    ]


def _extras() -> list[str]:
    lines = []
    for extra, (modules, purpose) in EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        state = f'missing: pip install "rl-training[{extra}]"' if missing else "installed"
        lines.append(f"{extra:<12} {state}   ({purpose})")
    return lines


def _storage_problem(folder: Path) -> str:
    """Why runs cannot be kept in a folder; empty when they can. Nothing stays behind."""
    from rl_training import _atomic

    parent = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".tmp-doctor-", dir=parent) as scratch:
            _atomic.write_bytes(Path(scratch, "file"), b"probe")
            _atomic.rename(Path(scratch, "file"), Path(scratch, "renamed"))
            same = Path(scratch, "renamed").read_bytes() == b"probe"
    except (OSError, StorageError) as error:
        return f"{folder} cannot be used: {error}"
    return "" if same else f"{folder} cannot be used: it gave back other bytes than were written"
