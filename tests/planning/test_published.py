"""The randomised play-the-winner trial of the R package RARtrials (Xu, Lumley and Vandal), from its vignette.

192 patients, an urn with one ball of each arm to which one ball is added after each response, one-sided tests of
(p1 - p0) / sqrt(p0 (1 - p0) / n0 + p1 (1 - p1) / n1). Its urn also decides the first arms, where `simulate` pulls every arm once.
Its figures are from 5,000 runs: at p0 = p1 = 0.5 the cut-off 1.988 has size 0.025, and at 0.5 and 0.7 it has power 0.7938, the
cut-off 1.96 power 0.8038.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxbias as jb
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.simulation.paths import Design, simulate_sums

STEPS, RUNS, THEIRS = 192, 100_000, 5_000


def z_statistics(mean, forced):
    """Of many trials; not a number where an arm has no spread or no pulls, which counts as no difference."""
    words = trial_words(root_words(jax.random.key(7)), jnp.uint32(0), RUNS)
    steps = jnp.arange(STEPS, dtype=jnp.int32)
    design = Design(arms=jnp.minimum(steps, 1), forced=steps < forced)
    means = jnp.broadcast_to(jnp.asarray(mean), (RUNS, 2))
    run = jax.jit(lambda words, means: simulate_sums(words, jb.policies.PlayTheWinner(), jb.Bernoulli(), means, design))
    pulls, total, _ = run(words, means)
    pulls, total = np.asarray(pulls, np.float64), np.asarray(total, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = total / pulls
        variance = share * (1 - share) / pulls
        return np.nan_to_num((share[:, 1] - share[:, 0]) / np.sqrt(variance.sum(axis=1)), posinf=0.0, neginf=0.0)


def agrees(found, published):
    """Within 4 combined errors: ours, and theirs of 5,000 runs; theirs is also rounded."""
    error = np.sqrt(published * (1 - published) * (1 / RUNS + 1 / THEIRS))
    return abs(found - published) < 4 * error


def test_size_and_power_of_the_play_the_winner_trial():
    null, better = z_statistics([0.5, 0.5], 0), z_statistics([0.5, 0.7], 0)
    print(f"size at 1.988 {np.mean(null > 1.988):.4f}, cut-off for 0.025 {np.quantile(null, 0.975):.3f}")
    print(f"power at 1.988 {np.mean(better > 1.988):.4f}, at 1.96 {np.mean(better > 1.959964):.4f}")
    assert agrees(np.mean(null > 1.988), 0.025)
    assert agrees(np.mean(better > 1.988), 0.7938)
    assert agrees(np.mean(better > 1.959964), 0.8038)
    # Their cut-off is a quantile of 5,000 runs: its error is that of a share of 0.025 over the density there.
    density = (np.mean(null > 1.938) - np.mean(null > 2.038)) / 0.1
    error = np.sqrt(0.025 * 0.975 * (1 / RUNS + 1 / THEIRS)) / density
    assert abs(np.quantile(null, 0.975) - 1.988) < 4 * error
