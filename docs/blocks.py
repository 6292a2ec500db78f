"""The code blocks of the pages: found, run, and their outputs written back.

    python docs/blocks.py docs/index.md README.md     # run the pages and write what they print into them
    python docs/blocks.py                             # all pages that have code
    python docs/blocks.py --check                     # run only, in two processes, and write nothing: what .ci/run does
    python docs/blocks.py --check docs/index.md       # the same for one page

A `python` block runs in the namespace of the blocks before it on the page. An `sh` block has commands, of which those of jaxbias
run. A `text` block right after either of them is its output. A comment right before a block says more: after
`<!-- parsed only: REASON -->` commands are read by the command line and go no further; after `<!-- checked with: OPTIONS -->`
they have these options too where pages are only checked, so that it takes seconds; after `<!-- first 12 lines -->` the rest of
the output is left out. A command fails where its exit code is 2 or more; 1 says that a result should not be relied on.
Commands are run in a folder of their own, with links to the folders of the repository.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"(?ms)^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*\n")
COMMENT = re.compile(r"<!-- (parsed only: [^\n]+|checked with: [^\n]+|first \d+ lines) -->\s*$")
WIDTH = "88"  # of the terminal, so that tables fit a page
FRAME = "│┃─━"  # of tables
LINE = 80  # the longest line of an output: what fits the column of a page in a window of 1,280 pixels
CHECKING = {  # as the tests do: most of the time is XLA compiling, and what was compiled is kept
    "XLA_FLAGS": "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4194304 --xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false",
    "JAX_COMPILATION_CACHE_DIR": "/tmp/jaxbias-test-cache",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PLATFORMS": "cpu",
}
FIRST = ROOT / "docs" / "how-to" / "devices.md"  # it must come before anything is computed


class Block(NamedTuple):
    """One block of a page.

    Fields:
        language: `python`, `sh` or another one.
        code: without its indentation.
        note: the comment right before it, or "".
        output: where the output's code begins and ends in the text, or None.
        indent: of its lines.
    """

    language: str
    code: str
    note: str
    output: tuple[int, int] | None
    indent: str


def find_blocks(text: str) -> list[Block]:
    """The blocks that can be run, in order."""
    fences = list(FENCE.finditer(text))
    found = []
    for number, fence in enumerate(fences):
        if fence["language"] not in ("python", "sh"):
            continue
        following = fences[number + 1] if number + 1 < len(fences) else None
        is_output = following and following["language"] == "text" and not text[fence.end() : following.start()].strip()
        output = following.span("code") if following and is_output else None
        comment = COMMENT.search(text[: fence.start()])
        code = re.sub(rf"(?m)^{fence['indent']}", "", fence["code"])
        found.append(Block(fence["language"], code, comment[1] if comment else "", output, fence["indent"]))
    return found


def pages() -> list[Path]:
    """The pages that have blocks to run."""
    written = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in written if find_blocks(path.read_text())]


def has_output(path: Path) -> bool:
    """Whether a page shows what a block prints."""
    return any(block.output is not None for block in find_blocks(path.read_text()))


def commands_in(code: str) -> list[list[str]]:
    """The words of each command of jaxbias in a block of a shell, without comments."""
    lines = [re.sub(r"^.*&& (?=jaxbias)", "", line) for line in code.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[1:] for line in words if line and line[0] == "jaxbias"]


def run_page(path: Path, shown_only: bool, ran: set[tuple[str, ...]] | None = None) -> list[str]:
    """What each block prints, or only commands whose output is shown. A failure is an AssertionError or what the block raises.

    `ran` has the commands that need not be run again, and gets those that were.
    """
    printed, names = [], {"__name__": "__main__"}
    for block in find_blocks(path.read_text()):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if block.language == "python":
                exec(compile(block.code, f"{path.name}: {block.code.splitlines()[0]}", "exec"), names)
            elif block.output is not None or not shown_only:
                run_commands(block, set() if ran is None else ran)
        printed.append(out.getvalue())
    return printed


def run_commands(block: Block, ran: set[tuple[str, ...]]) -> None:
    """Each command; or read only."""
    from jaxbias.cli import main

    more = shlex.split(block.note.removeprefix("checked with: ")) if block.note.startswith("checked with") else []
    for words in ([*line, *more] for line in commands_in(block.code)):
        if block.note.startswith("parsed only") or tuple(words) in ran:
            parse(words)
            continue
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = main(words)
        assert code <= 1, f"jaxbias {shlex.join(words)}: exit code {code}\n{errors.getvalue()}"
        ran.add(tuple(words))


def parse(words: list[str]) -> None:
    """Reads the options as the command line does, and runs nothing."""
    from typer.main import get_command

    from jaxbias.cli import app

    group: Any = get_command(app)
    if words and not words[0].startswith("-"):
        group.commands[words[0]].make_context(words[0], words[1:])


def write_outputs(path: Path, printed: list[str]) -> None:
    """Puts what each block printed into its block of output."""
    text = path.read_text()
    for block, out in reversed(list(zip(find_blocks(text), printed, strict=True))):
        if block.output is not None:
            wrapped = [part for line in out.strip("\n").splitlines() for part in wrap(line)]
            lines = [f"{block.indent}{line}".rstrip() for line in wrapped]
            lines = lines[: int(block.note.split()[1])] if block.note.startswith("first") else lines
            text = text[: block.output[0]] + "\n".join(lines) + "\n" + text[block.output[1] :]
    path.write_text(text)


def wrap(line: str) -> list[str]:
    """A long sentence in several lines, as a terminal shows it; rows of tables fit already."""
    return textwrap.wrap(line, LINE) if len(line) > LINE and not set(line) & set(FRAME) else [line.rstrip()]


def in_a_folder() -> None:
    """Goes to an empty folder in which the paths of the pages hold: what the pages write is not left in the repository."""
    folder = Path(tempfile.mkdtemp())
    for name in ("docs", "jaxbias", "notebooks", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    os.chdir(folder)


def check_in_processes() -> int:
    """All pages in two processes; the number of those in which one failed."""
    shares: list[list[str]] = [[], []]  # pages with the same log share programs
    for path in sorted(pages(), key=lambda path: path != FIRST):
        shares["orders.csv" in path.read_text()].append(str(path))
    running = [subprocess.Popen([sys.executable, __file__, "--check", *share]) for share in shares]
    return sum(process.wait() != 0 for process in running)


def check(wanted: list[Path]) -> int:
    """Runs pages, each to its first failure; the number of those that failed. A command of several pages is run once."""
    from jaxbias.analysis import limits

    limits.EVALUATED_LOGS = (1, 0)  # the evaluation compiles every method again; its own tests run it
    failed, ran = 0, set()
    for path in wanted:
        start, said = time.process_time(), "runs"
        try:
            run_page(path, shown_only=False, ran=ran)
        except Exception:
            failed, said = failed + 1, f"fails\n{traceback.format_exc()}"
        print(f"{os.path.relpath(path, ROOT)}: {time.process_time() - start:.1f} s of processor time, {said}", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, and evaluate the methods of debias on no logs")
    arguments = parser.parse_args()
    os.environ.update(COLUMNS=WIDTH, MPLBACKEND="agg", TERM="dumb", NO_COLOR="1")
    if arguments.check:
        os.environ.update({name: value for name, value in CHECKING.items() if name not in os.environ})
        if not arguments.pages:
            raise SystemExit(check_in_processes())
    wanted = [path.resolve() for path in arguments.pages] or [path for path in pages() if has_output(path)]
    sys.path.insert(0, str(ROOT))
    in_a_folder()
    if arguments.check:
        raise SystemExit(check(wanted))
    for path in wanted:
        printed = run_page(path, shown_only=True)
        write_outputs(path, printed)
        print(f"{path.relative_to(ROOT)}: {len(printed)} blocks", flush=True)


if __name__ == "__main__":
    main()
