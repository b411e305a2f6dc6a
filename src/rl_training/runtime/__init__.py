"""The machinery that runs any algorithm: collector, learner, trainer, evaluator, and where the speed lives."""
