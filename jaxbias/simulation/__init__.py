"""Trials of a policy: one step, `lax.scan` over steps, `vmap` over trials, chunks of trials over devices."""

from jaxbias.simulation.trials import simulate as simulate
