"""Standard streams that are closed, full or a closed pipe: the exit code is kept, and no file gets what was meant for them."""

import os
import subprocess
import sys

import pytest

ROWS = "arm,reward\n" + "a,1\nb,0\nb,1\na,0\n" * 3
SAMPLE_MEAN = ("--method", "sample_mean", "--no-evaluate")


def run(shell, folder, cache=None):
    """A line of a shell, in which $J is the program; its exit code, standard output and standard error."""
    (folder / "log.csv").write_text(ROWS)
    others = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment = {**others, "J": f"{sys.executable} -m jaxbias", "JAX_PLATFORMS": "cpu", "JAXBIAS_CACHE": str(cache or "off")}
    done = subprocess.run(
        ["bash", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


DEBIAS = f"$J debias log.csv {' '.join(SAMPLE_MEAN)}"


def test_closed_streams_are_done_without(tmp_path):
    """Python has None in their place: there were tracebacks, and a report got file number 1."""
    code, out, _ = run(f"{DEBIAS} --report page.html --quiet >&-; echo $?", tmp_path)
    assert (code, out) == (0, "0\n")
    assert (tmp_path / "page.html").read_text().endswith("</html>")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    code, out, _ = run(f"{DEBIAS} 2>&-; echo $?", tmp_path)
    assert out.splitlines()[0].startswith("No clear winner yet")
    assert out.splitlines()[-1] == "0"
    _, out, err = run("$J debias - <&-; echo $?", tmp_path)
    assert (out, err.count("\n")) == ("2\n", 1)
    assert err.startswith("jaxbias: standard input is empty; it must have a row of column names")
    assert run("$J debias no.csv <&- >&- 2>&-; exit $?", tmp_path) == (2, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_behind_the_streams(tmp_path):
    _, out, err = run(f"{DEBIAS} --quiet >/dev/full; echo $?", tmp_path)
    assert (out, err) == ("2\n", "jaxbias: [Errno 28] No space left on device\n")
    assert run("$J debias no.csv 2>/dev/full; echo $?", tmp_path) == (0, "2\n", "")


def test_codes_and_output_with_programs_that_end_the_process_at_once(tmp_path):
    """`os._exit` flushes nothing by itself: files and pipes are whole, and 0 and 1 are kept."""
    words = "--policy greedy --tau 1 --method propensity_weighting --method sample_mean --no-evaluate --quiet"
    for _ in range(2):  # with programs that are compiled, and that are loaded
        code, out, err = run(f"$J debias log.csv {words} > out.txt; echo $?; cat out.txt | tail -1", tmp_path, tmp_path / "cache")
        assert (code, err) == (0, "")
        assert out.splitlines()[0] in "01"
        assert out.splitlines()[1].startswith("--details prints")
    piped = run(f"$J debias log.csv {words} --json | tail -c 2", tmp_path, tmp_path / "cache")
    assert piped == (0, "}\n", "")
    head = run(f"$J debias log.csv {words} | head -1; exit ${{PIPESTATUS[0]}}", tmp_path, tmp_path / "cache")
    assert head[0] in (0, 1)
    assert head[2] == ""
    assert len(head[1].splitlines()) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_labels_that_the_encoding_of_the_output_does_not_have(encoding, tmp_path):
    """An answer was there, and ended in Python's words about a codec."""
    (tmp_path / "fruit.csv").write_text(ROWS.replace("a,", "\N{GREEN APPLE},").replace("b,", "\N{SNOWMAN},"), encoding="utf-8")
    words = " ".join(SAMPLE_MEAN)
    code, _, err = run(f"PYTHONIOENCODING={encoding} $J debias fruit.csv {words} --quiet > out.txt", tmp_path)
    assert (code, err) == (0, "")
    out = (tmp_path / "out.txt").read_text(encoding=encoding)
    assert ("\N{SNOWMAN}" if encoding == "utf-8" else "\\u2603") in out
    assert "--details prints" in out


@pytest.mark.parametrize("platform", ["cuda", "gpu", "nothing"])
def test_a_platform_without_devices_is_one_line(platform, tmp_path):
    code, out, err = run(f"JAX_PLATFORMS={platform} {DEBIAS} --quiet", tmp_path)
    words = f"JAX_PLATFORMS is {platform!r}, of which JAX has no device here; set that variable to cpu, or to nothing"
    assert (code, out, err.splitlines()[-1]) == (2, "", f"jaxbias: {words}")
    assert "Traceback" not in err
