"""Settings of a run: one schema and one validator for YAML files, the command line and Python keywords."""

from rl_training.config.fields import setting, specs_of
from rl_training.config.layers import Entry, Layer, find_preset
from rl_training.config.names import FieldHelp, describe_fields, route
from rl_training.config.resolve import Resolved, from_command_line, from_keywords, load_config, override, resolve
from rl_training.config.schema import (
    CheckpointConfig,
    DataConfig,
    EnvConfig,
    EvaluationConfig,
    LoggingConfig,
    ModelConfig,
    RuntimeConfig,
    TrainConfig,
)
from rl_training.config.writer import diff, dump_yaml, to_dict

__all__ = [
    "CheckpointConfig",
    "DataConfig",
    "Entry",
    "EnvConfig",
    "EvaluationConfig",
    "FieldHelp",
    "Layer",
    "LoggingConfig",
    "ModelConfig",
    "Resolved",
    "RuntimeConfig",
    "TrainConfig",
    "describe_fields",
    "diff",
    "dump_yaml",
    "find_preset",
    "from_command_line",
    "from_keywords",
    "load_config",
    "override",
    "resolve",
    "route",
    "setting",
    "specs_of",
    "to_dict",
]
