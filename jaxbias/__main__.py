"""The program: `jaxbias`, or `python -m jaxbias`."""

import sys

from jaxbias._core.interrupting import end_on_interrupt


def main() -> int:
    """Runs the command line; Ctrl-C ends it at once, while it is still importing too."""
    end_on_interrupt()
    from jaxbias.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
