"""Families as functions take them: completed, checked, and those of one arm."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import check_settings, is_concrete
from jaxbias.rewards.base import BaseFamily, Family, PlainFamily
from jaxbias.rewards.families import EACH, Normal, UnknownSigma

Tree = TypeVar("Tree")


def complete_family(family: Any) -> BaseFamily:
    """The family with everything that `BaseFamily` documents; a `Normal` without its sigma as `UnknownSigma`."""
    if isinstance(family, Normal) and (family.sigma is None or isinstance(family.sigma, str)):
        return UnknownSigma(each=family.sigma == EACH)
    return family if isinstance(family, BaseFamily) else PlainFamily(family)


def check_sigma(family: Any, purpose: str) -> None:
    """Raises where the family has no sigma yet and the purpose needs one."""
    if isinstance(family, UnknownSigma):
        sigma = EACH if family.each else None
        raise ArgumentError("family.sigma", sigma, f"a standard deviation, one or one per arm, for {purpose}")


def at_arm(tree: Tree, arm: jax.Array, num_arms: int) -> Tree:
    """The tree with every leaf that has one value per arm replaced by the value of this arm."""

    def value(leaf: Any) -> Any:
        if getattr(leaf, "shape", ()) != (num_arms,):
            return leaf
        return jnp.asarray(leaf).at[arm].get(mode="promise_in_bounds", wrap_negative_indices=False)

    return jax.tree.map(value, tree)


def check_family(family: Any, mean: Any) -> BaseFamily:
    """The family, completed; refused where its settings or the means are not ones it can have."""
    if isinstance(family, type) or not isinstance(family, Family):
        raise ArgumentError("family", family, "an object with sample(key, mean) and log_prob(reward, mean)")
    num_arms = mean.shape[-1]
    if isinstance(family, Normal) and isinstance(family.sigma, str) and family.sigma != EACH:
        allowed = f"a standard deviation; to estimate it, None (one for all arms) or '{EACH}' (one for each arm)"
        raise ArgumentError("family.sigma", family.sigma, allowed)
    completed = complete_family(family)
    if not isinstance(completed, UnknownSigma):
        check_settings(family, "family", num_arms)
    for leaf in jax.tree.leaves(completed):
        if hasattr(leaf, "shape") and leaf.shape not in ((), (num_arms,)):
            allowed = f"one number, or one for each of {num_arms} arms"
            raise ArgumentError("family", family, allowed, problem=f"has a setting of shape {leaf.shape}")
    allowed = completed.mean_allowed
    if allowed is not None and is_concrete(mean) and not np.all(allowed.test(np.asarray(mean))):
        raise ArgumentError("mean", mean, f"{allowed.description}, with {type(family).__name__} rewards")
    return completed
