"""Reading and writing logs: CSV, TSV, Parquet and data frames; samples for ArviZ.

The names are in `__init__.pyi`, and each is loaded when it is first used: notes and errors need no JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
