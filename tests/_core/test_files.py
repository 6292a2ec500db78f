"""Files are written completely or not at all, and never in the place of a device or a folder."""

import os

import pytest

from jaxbias._core.files import can_be_written, written_whole


def test_a_file_is_put_in_place_of_an_old_one(tmp_path):
    out = tmp_path / "out"
    for text in ("first", "second"):
        with written_whole(out) as temporary:
            temporary.write_text(text)
        assert out.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_goes_wrong_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    out.write_text("old")
    with pytest.raises(IsADirectoryError), written_whole(out) as temporary:
        (temporary.write_text("half"), tmp_path.write_text("this fails"))
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_no_file_stays_what_it_is(tmp_path):
    """A report to /dev/null must not put a page in the place of the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for out in (pipe, tmp_path, tmp_path / "nowhere" / "out"):
        assert not can_be_written(out)
        with pytest.raises(ValueError, match=r"^out is '.*'; it must be a file in an existing folder with write permission$"):
            written_whole(out).__enter__()
    assert pipe.is_fifo()


def test_a_link_stays_and_its_file_is_written(tmp_path):
    out, link, nowhere = tmp_path / "out", tmp_path / "link", tmp_path / "broken"
    out.write_text("old")
    link.symlink_to(out)
    nowhere.symlink_to(tmp_path / "missing")
    with written_whole(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert out.read_text() == "new"
    assert not can_be_written(nowhere)


def test_temporary_names_cannot_be_guessed_or_shared(tmp_path):
    """Two containers may have the same process number; and a link at a name that is known would be followed."""
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".out.{os.getpid()}").symlink_to(victim)
    with written_whole(out) as one, written_whole(out) as other:
        assert one.parent != other.parent
        assert one.parent.stat().st_mode & 0o777 == 0o700
        one.write_text("a" * 100_000)
        other.write_text("b")
    assert victim.read_text() == "mine"
    assert out.read_text() == "a" * 100_000  # the last to finish, and whole
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == ["out", "victim"]
