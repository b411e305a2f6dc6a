"""What each command does when nothing is wrong."""

from __future__ import annotations

import json
import statistics
import tomllib
from pathlib import Path

from in_process import TINY, Run

from rl_training.cli.doctor import EXTRAS
from rl_training.cli.train import split


def test_train_says_what_it_used_and_where_everything_is(cli: Run, tmp_path: Path) -> None:
    outcome = cli("train", "ppo", "CartPole-v1", "--seed", "3", *TINY)
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[0].startswith("preset ppo/"), lines
    assert lines[-4:] == [
        "  run      runs/ppo__CartPole-v1__seed3__STAMP",
        "  report   runs/ppo__CartPole-v1__seed3__STAMP/report.html",
        "  next     rl-training eval runs/ppo__CartPole-v1__seed3__STAMP",
        "           rl-training resume runs/ppo__CartPole-v1__seed3__STAMP --total-steps 512",
    ]
    (made,) = tmp_path.glob("runs/*")
    assert json.loads((made / "run.json").read_text())["status"] == "finished"
    assert (made / "report.html").is_file() and (made / "curve.svg").is_file()


def test_train_from_a_file_without_a_preset(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("algo: ppo\nenv_id: MountainCar-v0\noutput_dir: elsewhere\n")
    outcome = cli("train", "--config", "my.yaml", *TINY)
    assert outcome.code == 0, outcome
    assert outcome.out.startswith("no preset for ppo on MountainCar-v0: defaults of ppo\n"), outcome.out
    assert len(list(tmp_path.glob("elsewhere/ppo__MountainCar-v0__*"))) == 1


def test_quiet_prints_the_result_only(cli: Run) -> None:
    outcome = cli("train", "ppo", "CartPole-v1", *TINY, "--logging.progress=quiet")
    assert outcome.out.startswith("done in "), outcome.out


def test_train_help_lists_every_setting_of_the_algorithm(cli: Run) -> None:
    out = cli("train", "sac", "--help").out
    for expected in ("--seed int", "--algorithm.tau float", "--checkpoint.every int", "--env.backend auto|sync|async"):
        assert expected in out, out


def test_arguments_of_train_are_split() -> None:
    assert split(["ppo", "X", "--seed", "1"]) == (["ppo", "X"], ["--seed", "1"], None, False)
    assert split(["--config", "a.yaml", "--seed=1"]) == ([], ["--seed=1"], Path("a.yaml"), False)
    assert split(["--seed=1", "--config=a.yaml"]) == ([], ["--seed=1"], Path("a.yaml"), False)
    assert split(["ppo", "-h"])[3]


def test_eval_prints_and_stores_what_it_found(cli: Run, tiny_run: Path) -> None:
    outcome = cli("eval", tiny_run, "--episodes", 5, "--seed", 7)
    assert outcome.code == 0, outcome
    summary = json.loads((tiny_run / "eval" / "summary.json").read_text())
    assert (summary["seed"], summary["episodes"], len(summary["returns"])) == (7, 5, 5), summary
    assert summary["mean"] == statistics.fmean(summary["returns"]), summary
    assert summary["median"] == statistics.median(summary["returns"]), summary
    shown = f"return {summary['mean']:.1f} ± {summary['std']:.1f} over 5 episodes   min {summary['min']:.1f}"
    assert shown in outcome.out, outcome.out
    assert cli("eval", tiny_run.name, "--episodes", 5, "--seed", 7).out == outcome.out, (
        "a name and a second time differ"
    )


def test_eval_takes_the_best_the_last_or_the_named_checkpoint(cli: Run, tiny_run: Path) -> None:
    used = {}
    for words in ([tiny_run], [tiny_run, "--last"], [tiny_run / "checkpoints" / "step_000000128"]):
        assert cli("eval", *words, "--episodes", 1).code == 0
        used[len(used)] = json.loads((tiny_run / "eval" / "summary.json").read_text())["checkpoint"]
    assert used == {0: "step_000000256", 1: "step_000000256", 2: "step_000000128"}, used


def test_eval_takes_a_saved_agent(cli: Run, tiny_run: Path, tmp_path: Path) -> None:
    from rl_training import PPO

    PPO.load(tiny_run).save(tmp_path / "kept")
    outcome = cli("eval", "kept", "--episodes", 1)
    assert outcome.code == 0, outcome
    assert json.loads((tmp_path / "kept" / "eval" / "summary.json").read_text())["episodes"] == 1


def test_resume_goes_on_to_a_later_end(cli: Run, tiny_run: Path) -> None:
    outcome = cli("resume", tiny_run, "--total-steps", "384", "--checkpoint.every=128")
    assert outcome.code == 0, outcome
    assert "resuming runs/ppo__CartPole-v1__seed0__STAMP at step 256" in outcome.out, outcome.out
    rows = [json.loads(line) for line in (tiny_run / "evaluations.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 384, rows


def test_lists(cli: Run, tiny_run: Path) -> None:
    assert cli("list", "envs", "--like", "cartpole").out.splitlines()[:2] == ["CartPole-v0", "CartPole-v1"]
    algos = cli("list", "algos").out
    assert "ppo      Proximal policy optimization   (discrete, multidiscrete, continuous actions)" in algos, algos
    assert any(line.startswith("ppo      CartPole-v1 ") for line in cli("list", "presets").out.splitlines())
    assert cli("list", "runs").out.split() == [f"runs/{tiny_run.name[:-16]}STAMP", "finished", "256", "TIME"]
    assert cli("list", "runs", "--like", "nothing").out == "no runs like 'nothing'\n"


def test_config_of_a_run_tells_origins(cli: Run, tiny_run: Path) -> None:
    assert cli("config", "show", tiny_run).out == (tiny_run / "config.yaml").read_text()
    rows = {
        line.split()[0]: line.split(maxsplit=2)[1:]
        for line in cli("config", "show", tiny_run, "--origin").out.splitlines()
    }
    assert rows["total_steps"] == ["256", "--total-steps"], rows
    assert rows["seed"] == ["0", "default"], rows
    assert rows["env.backend"] == ['"native"', "default, chosen at the start"], rows


def test_config_origins_of_a_run_from_python_are_compared(cli: Run, tiny_run: Path) -> None:
    (tiny_run / "config_origin.json").unlink()
    rows = {
        line.split()[0]: line.split(maxsplit=2)[1:]
        for line in cli("config", "show", tiny_run, "--origin").out.splitlines()
    }
    assert rows["total_steps"] == ["256", "set when the run began"], rows
    assert rows["seed"] == ["0", "default"], rows


def test_config_of_a_file(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("algo: dqn\nenv_id: FrozenLake-v1\nseed: 5\n")
    valid = cli("config", "validate", "my.yaml")
    assert valid.out == "my.yaml is valid: dqn on FrozenLake-v1, 100,000 steps, seed 5\n", valid
    origins = cli("config", "show", "my.yaml", "--origin").out.splitlines()
    assert [line.split()[1:] for line in origins if line.startswith("seed ")] == [["5", "my.yaml:3:1"]], origins


def test_check_env(cli: Run) -> None:
    good = cli("check-env", "CartPole-v1")
    assert good.code == 0 and "no findings" in good.out, good
    bad = cli("check-env", "rl_training.testing:FourValues")
    assert bad.code == 7 and "step did not return 5 values" in bad.out, bad


def test_doctor(cli: Run, tmp_path: Path) -> None:
    outcome = cli("doctor", "--output-dir", "new/runs")
    assert outcome.code == 0, outcome
    for name in ("torch", "gymnasium", "numba", "threads", "gpu", "compiler"):
        assert any(line.startswith(f"{name} ") for line in outcome.out.splitlines()), f"{name} not in {outcome.out}"
    assert outcome.out.splitlines()[-1] == "runs         new/runs: can be written, rename and fsync work"
    assert list(tmp_path.iterdir()) == [], "the look left something behind"


def test_doctor_where_nothing_can_be_written(cli: Run) -> None:
    outcome = cli("doctor", "--output-dir", "/proc/runs")
    assert outcome.code == 3 and "/proc/runs cannot be used" in outcome.out.splitlines()[-1], outcome


def test_doctor_knows_every_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"dev", "all"}


def test_report(cli: Run, tiny_run: Path) -> None:
    (tiny_run / "report.html").unlink()
    outcome = cli("report", tiny_run)
    assert outcome.code == 0 and (tiny_run / "report.html").is_file(), outcome


def test_demo_exits_by_its_result(cli: Run, tmp_path: Path) -> None:
    outcome = cli("demo", "--total-steps", 256, "--output-dir", "shown")
    assert outcome.code == 1, outcome
    assert "the target is 475: FAIL" in outcome.out, outcome.out
    (made,) = tmp_path.glob("shown/ppo__CartPole-v1__seed0__*")
    for name in ("report.html", "curve.svg", "eval/summary.json"):
        assert (made / name).is_file(), name
        assert name.startswith("eval") or f"/{name}" in outcome.out, outcome.out
