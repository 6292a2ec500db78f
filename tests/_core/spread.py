"""What every function that spreads its trials gives, for a process of its own to write down: see test_devices.py.

python tests/_core/spread.py OUT.npz [DEVICES [HOST:PORT PROCESSES PROCESS]]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxbias as jb

MEAN = [1.0, 0.75, 0.5]
ROUNDED = "to rounding"  # what XLA computes in another order for a part of the paths than for all
NOISY, FAMILY = jb.Greedy(tau=1.0), jb.Normal()
DIVERGENCE = jb.ContrastiveDivergence.paper(kernel="random_walk", num_iterations=5, tail=3)


class Own:
    """A policy of one's own, which JAX sees as no tree."""

    def init(self, num_arms):
        return jnp.zeros(num_arms)

    def log_probs(self, state):
        return jax.nn.log_softmax(state)

    def update(self, state, arm, reward):
        return state.at[arm].add(0.1 * reward)


def figures():
    """Numbers of trials that fill no block, no chunk and no batch; two rounds of chunks."""
    key = jax.random.key(3)
    logs = jb.simulate(key, NOISY, FAMILY, MEAN, num_steps=9, num_trials=37)
    only = jb.simulate(key, NOISY, FAMILY, MEAN, num_steps=300)
    return {
        "simulate": jb.simulate(key, jb.LilUCB(), FAMILY, MEAN, 12, 301, held_out=True, chunk_size=48),
        "one trial": jb.simulate(key, jb.Thompson(), FAMILY, MEAN, 12),
        "draws": jb.simulate(key, jb.Thompson(), FAMILY, MEAN, 12, 50, keep_draws=True),
        "own": jb.simulate(key, Own(), FAMILY, MEAN, 12, 100),
        "measure_bias": jb.measure_bias(key, jb.LilUCB(), FAMILY, MEAN, 12, 3001, trajectory=True, after=5, chunk_size=512),
        "measure_bias, own": jb.measure_bias(key, Own(), jb.Bernoulli(), [0.2, 0.6], 12, 1001),
        "newton": jb.conditional_mle(key, logs, NOISY, FAMILY, num_paths=2048),
        "divergence": jb.conditional_mle(
            key, logs, NOISY, FAMILY, solver="contrastive_divergence", settings=DIVERGENCE, num_paths=4096
        ),
        "mean_matching": jb.mean_matching(key, logs, NOISY, FAMILY, num_paths=2048),
        f"one log, newton ({ROUNDED})": jb.conditional_mle(key, only, NOISY, FAMILY, num_paths=2048),
        "one log, mean_matching": jb.mean_matching(key, only, NOISY, FAMILY, num_paths=2048, interval="delta"),
        "one log, test_inversion": jb.test_inversion(key, only, NOISY, FAMILY, num_paths=2048),
        "one log, guarded_shrinkage": jb.guarded_shrinkage(key, only, NOISY, FAMILY, num_paths=2048, interval="delta"),
        "one log, bias_corrected": jb.bias_corrected(key, only, NOISY, FAMILY, num_paths=2048, interval="delta"),
    }


def named(found):
    """Every array by its name."""
    leaves = jax.tree_util.tree_leaves_with_path(found)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def main(out, devices="1", coordinator=None, processes="1", process="0"):
    jax.config.update("jax_num_cpu_devices", int(devices))
    if coordinator is not None:
        jax.distributed.initialize(coordinator, int(processes), int(process))
    assert len(jax.devices()) == int(devices) * int(processes)
    np.savez(out, **named(figures()))


if __name__ == "__main__":
    main(*sys.argv[1:])
