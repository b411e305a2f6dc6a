"""Broken twins: for every algorithm a fault that a return check would not see, and the tests that must see it.

A twin is the package with one piece of one file replaced. Functions get the code of the changed file in place, so that every
module which has imported them is broken too. It lives in a fork of the test process.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS_FAILED = 1  # pytest's exit code


@dataclass(frozen=True)
class Twin:
    algorithm: str
    fault: str
    module: str  # under rl_training
    right: str
    wrong: str
    tests: str  # under tests/unit, to be run until one fails

    def __str__(self) -> str:
        return f"{self.algorithm}: {self.fault}"


TWINS = [
    Twin("ppo", "takes the larger surrogate", "objectives.policy_gradient",
         ".minimum(ratio.clamp", ".maximum(ratio.clamp", "objectives/test_policy_gradient.py"),
    Twin("a2c", "lets advantages teach the critic", "algorithms.a2c",
         'batch["advantage"] * log_prob', '(batch["return"] - self.critic(batch["obs"])) * log_prob', "algorithms/test_a2c.py"),
    Twin("trpo", "forgets the damping", "algorithms.trust_region",
         "hessian(v)[0] + self.damping * v", "hessian(v)[0]", "algorithms/test_trpo.py"),
    Twin("trpo", "takes steps beyond its bound", "objectives.trust_region",
         " & (distance <= bound)", "", "algorithms/test_trpo.py"),
    Twin("dqn", "chooses and values by swapped networks", "algorithms.dqn",
         "if self.config.double else outputs", "if not self.config.double else outputs", "algorithms/test_value_family.py"),
    Twin("c51", "loses the mass that falls on an atom", "objectives.categorical",
         "return (probability.unsqueeze(-1) * share).sum(-2)",
         "return (probability.unsqueeze(-1) * share * (share != 1)).sum(-2)", "objectives/test_categorical.py"),
    Twin("qr_dqn", "averages over predictions and sums over targets", "algorithms.qr_dqn",
         ".mean(-1).sum(-1)", ".sum(-1).mean(-1) / 2", "algorithms/test_value_family.py"),
    Twin("iqn", "takes the fractions for their complements", "algorithms.iqn",
         "quantile_huber(quantiles, target, tau,", "quantile_huber(quantiles, target, 1 - tau,",
         "algorithms/test_value_family.py"),
    Twin("rainbow", "draws noise for every weight alone", "models.noisy",
         "torch.outer(out, into)", "torch.randn_like(self.weight)", "models/test_q_nets.py"),
    Twin("sac", "leaves out the correction for tanh", "models.distributions",
         "return log_prob - (2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))).sum(-1)", "return log_prob",
         "algorithms/test_sac.py"),
    Twin("td3", "moves its targets at every update", "algorithms.td3",
         "            self.critic_target.update()\n            self.actor_target.update()\n",
         "        self.critic_target.update()\n        self.actor_target.update()\n", "algorithms/test_td3.py"),
    Twin("td3_bc", "does not scale by the size of Q", "algorithms.terms",
         "self.alpha / q.detach().abs().mean()", "self.alpha", "algorithms/test_td3.py"),
    Twin("iql", "takes the expectile of the other side", "objectives.expectile",
         "(error < 0)", "(error > 0)", "objectives/test_expectile.py"),
    Twin("iql", "weighs actions before the values are learned", "algorithms.iql",
         'out = self.fit_value(batch)  # first: actor and critics use the new values\n'
         '        out |= self.actor_optim.minimize("actor_loss", batch)\n',
         'out = self.actor_optim.minimize("actor_loss", batch)\n        out |= self.fit_value(batch)\n',
         "algorithms/test_iql.py"),
    Twin("rebrac", "clones as if cut episodes went on", "algorithms.rebrac",
         ' * batch["next_action_known"]', "", "algorithms/test_rebrac.py"),
    Twin("rebrac", "goes on cloning in its critics online", "algorithms.rebrac",
         "0.0 if online else self.config.critic_bc", "self.config.critic_bc", "algorithms/test_rebrac.py"),
    Twin("cql", "forgets the densities of proposed actions", "algorithms.cql",
         "q[:, 1:] - log_density", "q[:, 1:]", "algorithms/test_cql.py"),
    Twin("cql", "turns its multiplier the wrong way", "algorithms.conservative",
         "(gap - self.gap_target)", "(self.gap_target - gap)", "algorithms/test_cql.py"),
    Twin("cal_ql", "holds random actions above the return", "algorithms.cal_ql",
         "first = 1 + self.config.samples", "first = 1", "algorithms/test_cal_ql.py"),
    Twin("cal_ql", "takes the return of a window from its end", "data.extras",
         "self.returns[first]", "self.returns[last]", "data/test_extras.py"),
    Twin("xql", "does not shrink errors by the largest", "objectives.gumbel",
         "return (z - m).exp() - (z + 1.0) * (-m).exp()", "return z.exp() - z - 1.0", "algorithms/test_xql.py"),
    Twin("xql", "lets critics feel large errors by their squares", "algorithms.xql",
         "return huber(td, HUBER)", "return 0.5 * td.square()", "algorithms/test_xql.py"),
    Twin("awac", "caps advantages, not weights", "algorithms.awac",
         ".exp().clamp(max=self.config.max_weight)", ".clamp(max=self.config.max_weight).exp()", "algorithms/test_awac.py"),
    Twin("crr", "clones what is no better than the baseline", "algorithms.crr",
         "(advantage > 0)", "(advantage >= 0)", "algorithms/test_crr.py"),
    Twin("marwil", "divides by a square", "algorithms.marwil",
         "self.mean_square.sqrt().float()", "self.mean_square.float()", "algorithms/test_marwil.py"),
    Twin("awr", "lets the deviation learn", "algorithms.awr",
         '["policy.net"]', '["policy"]', "algorithms/test_awr.py"),
    Twin("awr", "goes on with the labels of the first values", "data.labelled",
         "if self.given % self.cycle in self.begins:", "if not self.given:", "data/test_labelled.py"),
    Twin("bc", "sums over the dimensions of an action", "algorithms.bc",
         '- batch["action"]).square().mean()', '- batch["action"]).square().sum(-1).mean()', "algorithms/test_bc.py"),
    Twin("ddpg", "smooths the target action", "algorithms.ddpg",
         "target_noise=0.0", "target_noise=0.2", "algorithms/test_ddpg.py"),
    Twin("discrete_sac", "averages over actions where it must sum", "algorithms.discrete_sac",
         "return (log_pi.exp() * soft_q).sum(-1)", "return (log_pi.exp() * soft_q).mean(-1)", "algorithms/test_discrete_sac.py"),
    Twin("discrete_sac", "turns its temperature the wrong way", "algorithms.discrete_sac",
         "(entropy - self.target_entropy)", "(self.target_entropy - entropy)", "algorithms/test_discrete_sac.py"),
    Twin("redq", "takes the smallest of all critics", "algorithms.redq",
         "if subset == members:", "if True:", "algorithms/test_redq.py"),
    Twin("droq", "acts and learns without dropout", "models.mlp",
         "return x * (torch.rand_like(x) >= self.p) / (1.0 - self.p)", "return x", "algorithms/test_droq.py"),
    Twin("tqc", "drops the smallest quantiles", "algorithms.tqc",
         "pooled[:, : c.members * (c.quantiles - c.drop)]", "pooled[:, c.members * c.drop :]", "algorithms/test_tqc.py"),
    Twin("crossq", "normalizes taken and next actions apart", "models.batch_renorm",
         "        values, statistics = in_training(self.body, x)\n        q, next_q = values.squeeze(-1).chunk(2, -1)\n",
         "        half, _ = x.chunk(2, -2)\n        q, statistics = in_training(self.body, half)\n        q = q.squeeze(-1)\n"
         "        next_q = in_training(self.body, x.chunk(2, -2)[1])[0].squeeze(-1)\n", "algorithms/test_crossq.py"),
    Twin("rlpd", "puts all prior data into the first rows", "data.mixture",
         "shares[1:] > shares[:-1]", "np.arange(size) < shares[-1]", "data/test_mixture.py"),
    Twin("ars", "moves away from what returned more", "contrib.ars",
         "(forwards - backwards)[best]", "(backwards - forwards)[best]", "contrib/test_ars.py"),
    Twin("sac_n", "turns its temperature the wrong way", "algorithms.sac_n",
         "entropy = -self.policy", "entropy = self.policy", "algorithms/test_sac_n.py"),
    Twin("edac", "teaches nothing by its slopes", "algorithms.edac",
         "        return slopes\n", "        return slopes.detach()\n", "algorithms/test_edac.py"),
    Twin("edac", "divides by all critics", "objectives.ensemble",
         "(len(slopes) - 1)", "len(slopes)", "objectives/test_ensemble.py"),
    Twin("bcq", "decodes latents however far out", "models.vae",
         ".clamp(-LATENT_BOUND, LATENT_BOUND)", "", "models/test_candidates.py"),
    Twin("bcq", "lets rare actions value the next state", "algorithms.discrete_bcq",
         "self.policy.net(obs).argmax(-1)", "self.policy.net.both(obs)[0].argmax(-1)", "algorithms/test_bcq.py"),
    Twin("bear", "compares actions after the tanh", "algorithms.bear",
         'proposed = self.actor.before_tanh(batch["obs"], self.noise(rows, c.mmd_samples))',
         'proposed = self.actor(batch["obs"], self.noise(rows, c.mmd_samples))', "algorithms/test_bear.py"),
    Twin("bear", "lowers the price of being far", "algorithms.bear",
         "loss = -self.log_alpha.exp()", "loss = self.log_alpha.exp()", "algorithms/test_bear.py"),
    Twin("decision_transformer", "reads the action from the action itself", "models.transformer",
         "x[:, 1::TOKENS]", "x[:, 2::TOKENS]", "contrib/test_decision_transformer.py"),
    Twin("decision_transformer", "asks for as much after a reward", "data.history",
         "        self.to_go -= reward\n", "", "data/test_history.py"),
]  # fmt: skip


def functions(namespace: types.ModuleType | type, home: str) -> Iterator[tuple[str, types.FunctionType]]:
    """Every plain function of a module and of its classes, by qualified name."""
    for value in vars(namespace).values():
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        if inspect.isfunction(value):
            found = inspect.unwrap(value)
            if found.__module__ == home:
                yield found.__qualname__, found
        elif inspect.isclass(value) and value.__module__ == home:
            yield from functions(value, home)


def mutate(twin: Twin) -> int:
    """Break this process; tells how many functions are other than they were."""
    module = import_module(f"rl_training.{twin.module}")
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert source.count(twin.right) == 1, f"{twin}: {twin.module} has {source.count(twin.right)} of {twin.right!r}"
    broken = types.ModuleType(module.__name__)
    broken.__file__ = module.__file__
    exec(compile(source.replace(twin.right, twin.wrong), module.__file__, "exec"), vars(broken))
    changed, originals = 0, dict(functions(module, module.__name__))
    for name, function in functions(broken, module.__name__):
        if name in originals and originals[name].__code__ != function.__code__:
            originals[name].__code__ = function.__code__
            changed += 1
    return changed


def verdict(twin: Twin | None, tests: str, log: Path) -> int:
    """Pytest's exit code for some tests, under a twin or as things are."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(descriptor, stream)
            for name in [name for name in sys.modules if name.startswith("test_")]:
                del sys.modules[name]  # tests of one process may share a module's name
            if twin is None or mutate(twin):
                code = int(pytest.main([str(ROOT / "tests" / "unit" / tests), "-q", "-x", "-p", "no:cacheprovider"]))
        except BaseException as error:
            print(repr(error), flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
