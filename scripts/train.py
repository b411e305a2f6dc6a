"""`python scripts/train.py ALGO ENV ...` is `rl-training train ALGO ENV ...`."""

import sys

from rl_training.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
