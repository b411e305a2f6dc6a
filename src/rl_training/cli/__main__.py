"""`python -m rl_training.cli`."""

import sys

from rl_training.cli.app import main

sys.exit(main())
