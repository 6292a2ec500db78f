"""How many memory maps this process has: every compiled program has some, and beyond the kernel's limit a process dies.

Linux allows a process 65,530 maps (`vm.max_map_count`). A program has dozens, so that a process which compiles thousands of them,
for logs of ever new kinds, would end with a segmentation fault. So they are counted where programs are made, and all programs are
forgotten, to be made again when they are used, while there is still room.
"""

from pathlib import Path

import jax

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
SHARE = 0.75  # of the limit: room for the programs between two counts, of some 130 maps each, and as many again
PROGRAMS_BETWEEN = 32  # between two counts, which take some milliseconds each
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX's event for every program that it makes


class Crowding:
    """Counts programs, and now and then maps."""

    def __init__(self) -> None:
        self.made = 0
        self.most = most_maps()

    def program_made(self, event: str = COMPILED, *_: object, **__: object) -> None:
        """Called for each program, by JAX or where one is loaded from a file."""
        self.made += event == COMPILED

    def is_near(self) -> bool:
        """Whether the limit is near; asked often, looked up rarely."""
        if self.most is None or self.made < PROGRAMS_BETWEEN:
            return False
        self.made = 0
        return memory_maps() > SHARE * self.most


def memory_maps() -> int:
    """How many this process has; 0 where there is no such list."""
    try:
        return MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def most_maps() -> int | None:
    """How many a process may have; None where there is no such limit."""
    try:
        return int(LIMIT.read_text())
    except (OSError, ValueError):
        return None


CROWDING = Crowding()
jax.monitoring.register_event_duration_secs_listener(CROWDING.program_made)
