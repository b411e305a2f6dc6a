"""The views of a run: what they show, that they are cheap, and that the terminal is left as it was."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from rl_training.experiment.live import COST_SHARE, Live, picture, sparkline
from rl_training.experiment.progress import Plain, Quiet, Status, make_progress, one_line

STATUS = Status(
    31_488,
    50_000,
    "steps",
    5_210.4,
    212.4,
    "498.3 ± 2.1",
    "498.3",
    30_720,
    {"collect": 0.4, "update": 0.5, "log": 0.001},
)


def drawn(status: Status, width: int, returns: list[float] | None = None) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    lines = console.render_lines(picture(status, returns or [], width), pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def on_screen() -> tuple[Live, io.StringIO]:
    live, file = Live(forced=True), io.StringIO()
    live.console = Console(file=file, force_terminal=True, width=100, highlight=False)
    return live, file


def test_picture() -> None:
    assert drawn(STATUS, 100, [1.0, 2.0, 8.0]) == [
        " 63%  " + "━" * 36 + "   31,488 / 50,000 steps   5,210/s   0:00:04 left",
        " return   train 212.4   eval 498.3 ± 2.1   best 498.3   ▁▂█",
        " time    update 50%  collect 40%   checkpoint 30,720",
    ]


def test_picture_of_a_run_that_has_shown_nothing_yet() -> None:
    assert drawn(Status(0, 100, "updates", 0.0), 80) == ["  0%  " + "━" * 36 + "   0 / 100 updates   0/s   ? left"]


@pytest.mark.parametrize("width", [100, 60, 30, 8])
def test_a_narrow_terminal_crops_and_never_wraps(width: int) -> None:
    lines = drawn(STATUS, width)
    assert len(lines) == 3 and max(map(len, lines)) <= width, lines


def test_plain_line() -> None:
    expected = " 63%   31,488 / 50,000 steps   5,210 steps/s   0:00:04 left   return 212.4   eval 498.3 ± 2.1"
    assert one_line(STATUS) == expected


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert sparkline([-7.0, 0.0, -3.5]) == "▁█▅"


def test_plain_keeps_its_pace(capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = Plain(seconds=1e9), Plain(seconds=0.0)
    for _ in range(3):
        slow.update(STATUS)
    assert capsys.readouterr().out == ""
    fast.update(STATUS)
    fast.say("note")
    fast.close()
    assert capsys.readouterr().out == one_line(STATUS) + "\nnote\n"


def test_quiet_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    view = make_progress("quiet")
    view.say("x")
    view.update(STATUS)
    view.close()
    assert isinstance(view, Quiet) and capfd.readouterr() == ("", "")


def test_the_view_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_progress("auto"), Plain)
    assert isinstance(make_progress("live"), Live)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert isinstance(make_progress("auto"), Live)
    assert isinstance(make_progress("plain"), Plain)


def test_lines_that_were_said_stay_and_are_not_markup() -> None:
    live, file = on_screen()
    live.say("before [bold]")
    live.update(STATUS)
    live.say("between [/x]")
    live.close()
    text = file.getvalue()
    assert "before [bold]\n" in text and "between [/x]\n" in text, repr(text)


def test_the_cursor_is_visible_at_every_moment_of_training() -> None:
    live, file = on_screen()
    hide, show = "\x1b[?25l", "\x1b[?25h"
    live.update(STATUS)
    text = file.getvalue()
    assert text.rfind(show) > text.rfind(hide), repr(text)
    live._next = 0.0
    live.update(STATUS)
    assert file.getvalue().rfind(show) > file.getvalue().rfind(hide), repr(file.getvalue())
    live.close()
    live.close()
    assert file.getvalue().rfind(show) > file.getvalue().rfind(hide), repr(file.getvalue())


def test_drawing_costs_a_small_share_however_slow_the_terminal_is() -> None:
    live, file = on_screen()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            time.sleep(0.01)
            return file.write(text)

    live.console = Console(file=Slow(), force_terminal=True, width=100)
    live.update(STATUS)
    spent = time.monotonic()
    live.update(STATUS)
    skipped = time.monotonic() - spent
    wait = live._next - spent
    live.close()
    assert wait > 0.9 * 0.01 / COST_SHARE, f"the next picture comes after {wait} s"
    assert skipped < 0.005, f"an update that is not due took {skipped} s"
