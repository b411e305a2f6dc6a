# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint learn bench crashtest clean

demo: $(INSTALLED)
	$(BIN)/rl-training demo

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check src tests benchmarks examples scripts
	$(BIN)/mypy

learn: $(INSTALLED)
	$(BIN)/python benchmarks/learning.py

crashtest: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/crash/harness.py --kills 20

bench: $(INSTALLED)
	$(PYTHON) -m venv $(VENV)-sb3
	$(VENV)-sb3/bin/pip install --quiet --constraint constraints.txt torch
	$(VENV)-sb3/bin/pip install --quiet --constraint constraints.txt stable-baselines3 "gymnasium[mujoco,classic-control]"
	$(BIN)/python benchmarks/compare_sb3.py --sb3-python $(VENV)-sb3/bin/python

# torch first and alone: constraints.txt pins a version, so that pip does not take another build with gigabytes of CUDA packages.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-sb3 .pytest_cache .mypy_cache .ruff_cache .hypothesis
