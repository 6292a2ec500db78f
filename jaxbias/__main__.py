"""`python -m jaxbias` is `jaxbias`."""

import sys

from jaxbias.cli import main

if __name__ == "__main__":
    sys.exit(main())
