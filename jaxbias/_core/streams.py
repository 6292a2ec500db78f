"""Standard input, output and error that are closed, as in `jaxbias ... >&-` or under a service that has none of them."""

import os
import sys


def open_closed_streams() -> None:
    """For the start of the program: a closed stream is empty, and takes what is written to it.

    Python has None in its place. And the next file that is opened, a report for example, would get its number: what JAX's
    libraries write to standard error would go into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in this order, each gets the number it had
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (open as long as the process)
