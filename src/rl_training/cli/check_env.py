"""`rl-training check-env ENV`."""

from __future__ import annotations

from rl_training.cli.parser import Parser


def run(arguments: list[str]) -> int:
    parser = Parser(
        "check-env", "Step an environment with random actions; report every breach of the contract, and its mend."
    )
    parser.add_argument("env", metavar="ENV", help="CartPole-v1, file:my_env.py:MyEnv, or package.module:factory")
    options = parser.parse_args(arguments)
    from rl_training.envs.check import check_env
    from rl_training.errors import EnvError

    report = check_env(options.env)
    print(report)
    return 0 if report.ok else EnvError.exit_code
