"""The log files that the pages use, and the bundled log of sign-ups: simulated, so that the truth is known.

python docs/make_data.py
"""

import datetime
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import jaxbias as jb

ROOT = Path(__file__).parents[1]
FIRST_DAY = datetime.date(2026, 3, 2)


def make_signups() -> pd.DataFrame:
    """Two weeks of a page with three variants, 300 visitors a day, shared out by Thompson sampling; a row a day and variant.

    The seed was chosen: in this log luck ran against the control in the first days.
    """
    true_rates, daily, days = [0.10, 0.12, 0.09], 300, 14
    policy, family = jb.BetaThompson(), jb.Bernoulli()
    history = jb.simulate(jax.random.key(5), policy, family, true_rates, num_steps=days * daily, batch_size=daily)
    rows = pd.DataFrame({"variant": np.array(["A", "B", "C"])[np.asarray(history.arms)], "signups": np.asarray(history.rewards)})
    rows["day"] = [FIRST_DAY + datetime.timedelta(days=row // daily) for row in range(days * daily)]
    counts = rows.groupby(["day", "variant"])["signups"].agg(visitors="size", signups="sum").reset_index()
    return pd.DataFrame(counts.astype({"signups": int})[["day", "variant", "visitors", "signups"]])


def make_orders() -> pd.DataFrame:
    """One row for each pull of Thompson sampling: the value of an order, Normal with sigma 1.5."""
    policy, family = jb.Thompson(sigma=1.5), jb.Normal(sigma=1.5)
    history = jb.simulate(jax.random.key(3), policy, family, [5.0, 4.6, 4.2], num_steps=150)
    labels = np.array(["red", "green", "blue"])[np.asarray(history.arms)]
    return pd.DataFrame({"arm": labels, "reward": np.asarray(history.rewards).round(3)})


def main() -> None:
    make_signups().to_csv(ROOT / "jaxbias" / "examples" / "signups.csv", index=False)
    make_orders().to_csv(ROOT / "docs" / "data" / "orders.csv", index=False)


if __name__ == "__main__":
    main()
