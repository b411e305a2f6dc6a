"""`rl-training demo`: from nothing to an agent that solves CartPole, with a report to look at."""

from __future__ import annotations

from datetime import timedelta

from rl_training.cli.parser import Parser, non_negative, positive

ALGO, ENV, TARGET, EPISODES = "ppo", "CartPole-v1", 475.0, 20
STEPS = 98_304  # a whole number of rollouts below 100,000


def run(arguments: list[str]) -> int:
    parser = Parser(
        "demo", f"Train {ALGO} on {ENV}, evaluate it, and write a report. Exit code 0 when {TARGET:g} is reached."
    )
    parser.add_argument(
        "--output-dir", default="runs", metavar="DIR", help="where the run directory goes (default: runs)"
    )
    parser.add_argument(
        "--seed", type=non_negative, default=0, metavar="N", help="start of all randomness (default: 0)"
    )
    parser.add_argument(
        "--total-steps", type=positive, default=STEPS, metavar="N", help=f"env steps (default: {STEPS:,})"
    )
    options = parser.parse_args(arguments)
    from rl_training.cli.evaluate import evaluate, find, write_summary
    from rl_training.cli.train import train
    from rl_training.config import from_command_line
    from rl_training.experiment.report import write_report

    flags = [f"--output-dir={options.output_dir}", f"--seed={options.seed}", f"--total-steps={options.total_steps}"]
    trained, seconds = train(from_command_line(ALGO, ENV, flags))
    best = find(str(trained.run_dir))
    agent, result = evaluate(best, EPISODES)
    write_summary(best, agent, result, deterministic=True)
    passed = result.mean >= TARGET
    print(f"done in {timedelta(seconds=round(seconds))}   {int(trained.metrics['global_step']):,} env steps")
    print(f"  result   evaluation return {result}; the target is {TARGET:g}: {'pass' if passed else 'FAIL'}")
    print(f"           by the best checkpoint ({best.name}), on new episodes; the last one had {trained.evaluation}")
    print(f"  run      {trained.run_dir}")
    print(f"  report   {write_report(trained.run_dir)}")
    print(f"  curve    {trained.run_dir / 'curve.svg'}")
    print("  next     rl-training train sac Pendulum-v1")
    return 0 if passed else 1
