"""The end of a process that has compiled something, which does not wait for the interpreter's own end."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jaxbias.__main__ as program
def main():
    print("figures", end="")
    if sys.stderr:
        print("words", end="", file=sys.stderr)
    return {code}
program.main, program._has_programs = main, lambda: True
program.program()
raise AssertionError("it goes on")
"""


def end(redirection="", code=3):
    words = ["sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, PROGRAM.format(code=code)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # or nothing is held back
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_nothing_that_was_printed_is_lost(code):
    assert end(code=code) == (code, "figures", "words")


@pytest.mark.parametrize(("redirection", "printed"), [(">&-", ("", "words")), ("2>&-", ("figures", "")), (">&- 2>&-", ("", ""))])
def test_a_process_that_began_without_standard_output_ends_with_its_own_code(redirection, printed):
    """Python has no file there, and nothing to write."""
    assert end(redirection) == (3, *printed)


def test_a_full_disk_is_told():
    code, _, words = end("> /dev/full")
    assert code != 3
    assert "No space left on device" in words
