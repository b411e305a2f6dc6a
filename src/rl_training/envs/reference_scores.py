"""What a random and an expert policy return, by D4RL's tables: the 0 and the 100 of a normalized score."""

from __future__ import annotations

import re
from dataclasses import dataclass

# task -> return of D4RL's random policy, return of its expert
TABLE: dict[str, tuple[float, float]] = {
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
    "ant": (-325.6, 3879.7),
    "antmaze": (0.0, 1.0),
    "maze2d-umaze": (23.85, 161.86),
    "maze2d-medium": (13.13, 277.39),
    "maze2d-large": (6.7, 273.99),
    "pen": (96.262799, 3076.8331017826877),
    "hammer": (-274.856578, 12794.134825156867),
    "door": (-56.512833, 2880.5693087298737),
    "relocate": (-6.425911, 4233.877797728884),
    "kitchen": (0.0, 4.0),
}
NAMED_OTHERWISE = {  # in the environments of today
    "adroithandpen": "pen",
    "adroithandhammer": "hammer",
    "adroithanddoor": "door",
    "adroithandrelocate": "relocate",
    "frankakitchen": "kitchen",
}
MEASURED_ON_V2 = ("halfcheetah", "hopper", "walker2d", "ant")


@dataclass(frozen=True)
class Reference:
    """The constants of one task, and the environment or dataset they are used for."""

    task: str
    low: float
    high: float
    used_for: str

    def normalized(self, value: float) -> float:
        """0 is as good as random, 100 as the expert."""
        return 100.0 * (value - self.low) / (self.high - self.low)

    @property
    def note(self) -> str:
        """Which constants these are, and what to mind."""
        text = f"D4RL's constants of {self.task}: {self.low:g} to {self.high:g}"
        version = re.search(r"-v(\d+)$", self.used_for)
        if self.task in MEASURED_ON_V2 and version is not None and int(version[1]) > 2:
            return f"{text}, measured on v2 bodies"
        return text


def reference(name: str | None) -> Reference | None:
    """The constants for an environment id or the name of a dataset: HalfCheetah-v5, hopper-medium-v2, D4RL/pen/human-v2."""
    words = re.findall(r"[a-z0-9]+", (name or "").lower())
    if "maze2d" in words:
        # The dense and the evaluation variants have other constants.
        sizes = [] if {"dense", "eval"} & set(words) else [f"maze2d-{word}" for word in words]
        found = next((size for size in sizes if size in TABLE), None)
    else:
        known = [NAMED_OTHERWISE.get(word, word) for word in words]
        found = next((word for word in known if word in TABLE), None)
    return None if found is None else Reference(found, *TABLE[found], used_for=str(name))


def normalized_score(name: str | None, value: float) -> float | None:
    """A return on this task as a normalized score; None where there are no constants for it."""
    found = reference(name)
    return None if found is None else found.normalized(value)
