"""Environment names: which exist, which package registers them, and what to type when a name does not work."""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, parse_env_id

from rl_training.errors import ConfigError, MissingExtraError, UserError, did_you_mean

# prefix of the id -> (module whose import registers it, what installs it). A bare word is one of our own extras.
REGISTERED_BY: dict[str, tuple[str, str]] = {
    "rl_training/": ("rl_training.envs.goal_tasks", ""),
    "ALE/": ("ale_py", "atari"),
    "MiniGrid-": ("minigrid", "pip install minigrid"),
    "BabyAI-": ("minigrid", "pip install minigrid"),
    "Fetch": ("gymnasium_robotics", "robotics"),
    "Hand": ("gymnasium_robotics", "robotics"),
    "Adroit": ("gymnasium_robotics", "robotics"),
    "PointMaze": ("gymnasium_robotics", "robotics"),
    "AntMaze": ("gymnasium_robotics", "robotics"),
    "FrankaKitchen": ("gymnasium_robotics", "robotics"),
    "highway-": ("highway_env", "pip install highway-env"),
    "dm_control/": ("shimmy", 'pip install "shimmy[dm-control]"'),
    "Meta-World/": ("metaworld", "pip install metaworld"),
}
# Gymnasium's own families whose engine is a separate package: folder of the entry point -> our extra.
ENGINE_EXTRA = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d"}
# fmt: off
ATARI_GAMES = frozenset(
    (
        "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist", "BattleZone", "BeamRider",
        "Berzerk", "Bowling", "Boxing", "Breakout", "Centipede", "ChopperCommand", "CrazyClimber", "Defender",
        "DemonAttack", "DoubleDunk", "Enduro", "FishingDerby", "Freeway", "Frostbite", "Gopher", "Gravitar",
        "Hero", "IceHockey", "Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MontezumaRevenge", "MsPacman",
        "NameThisGame", "Phoenix", "Pitfall", "Pong", "PrivateEye", "Qbert", "Riverraid", "RoadRunner",
        "Robotank", "Seaquest", "Skiing", "Solaris", "SpaceInvaders", "StarGunner", "Surround", "Tennis",
        "TimePilot", "Tutankham", "UpNDown", "Venture", "VideoPinball", "WizardOfWor", "YarsRevenge", "Zaxxon",
    )
)
# fmt: on


def env_ids(like: str = "") -> list[str]:
    """Every environment id that can be made here, sorted; `like` keeps those that contain it (any case).

    Packages that register more environments (Atari, MiniGrid, robotics, ...) are included when they are installed.
    """
    for module, _ in REGISTERED_BY.values():
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    return sorted(name for name in map(str, gym.registry) if like.lower() in name.lower() and _is_live(name))


def find_spec(env_id: str) -> EnvSpec:
    """The registered description of `env_id`, importing what registers it; a UserError says what to type."""
    if env_id not in gym.registry:
        _import_registering_package(env_id)
    if env_id in gym.registry and _is_live(env_id):
        return gym.registry[env_id]
    raise _unknown(env_id)


def missing_engine(spec: EnvSpec, error: Exception) -> UserError:
    """The error to show when building `spec` failed for want of a package."""
    entry = str(spec.entry_point)
    for folder, extra in ENGINE_EXTRA.items():
        if entry.startswith(folder):
            return MissingExtraError(repr(spec.id), extra)
    return ConfigError(f"'{spec.id}' needs a package that is not installed.", f"{type(error).__name__}: {error}")


def _is_live(env_id: str) -> bool:
    """False for names that Gymnasium only keeps to raise an error (MuJoCo v2 and v3, the old-gym shims)."""
    entry = gym.registry[env_id].entry_point
    name = getattr(entry, "__name__", "")
    return entry is not None and not name.startswith("_raise") and not env_id.startswith("GymV2")


def _import_registering_package(env_id: str) -> None:
    for prefix, (module, installer) in REGISTERED_BY.items():
        if not env_id.startswith(prefix):
            continue
        if importlib.util.find_spec(module) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # e.g. ale_py registering what another import already did
                importlib.import_module(module)
        elif installer.startswith("pip "):
            raise ConfigError(f"'{env_id}' needs the package {module}.", fix=f"Fix: {installer}")
        else:
            raise MissingExtraError(repr(env_id), installer)


def _unknown(env_id: str) -> UserError:
    try:
        namespace, name, version = parse_env_id(env_id)
    except gym.error.Error:
        return ConfigError(f"'{env_id}' is not an environment name.", fix="Examples: CartPole-v1, file:my_env.py:MyEnv")
    live = env_ids()
    versions = [
        spec for spec in map(gym.registry.__getitem__, live) if (spec.namespace, spec.name) == (namespace, name)
    ]
    if versions:
        newest = max(versions, key=lambda spec: spec.version or 0)
        if version is not None and version < (newest.version or 0):
            what = f"{env_id} was replaced by {newest.id} (scores are not comparable)."
        else:
            what = f"{env_id} does not exist; the newest version is {newest.id}."
        return ConfigError(what, fix=f"Use {newest.id}")
    game = name.removesuffix("NoFrameskip").removesuffix("Deterministic")
    if namespace is None and game in ATARI_GAMES:
        return ConfigError(f"'{env_id}' is now called ALE/{game}-v5.", fix=f"Use ALE/{game}-v5")
    hint = did_you_mean(env_id, live)
    listing = f"List: rl-training list envs --like {name[:4].lower()}"
    return ConfigError(" ".join(part for part in (f"Unknown environment '{env_id}'.", hint, listing) if part))
