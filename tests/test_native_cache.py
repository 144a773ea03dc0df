"""The cache of compiled code: whose folder it is, and what becomes of a damaged entry or a full disk."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pingpong import environment, store
from pingpong.native import cache, programs

PINGPONG = str(Path(sys.executable).with_name("pingpong"))
PREPARE = str(Path(__file__).parent / "programs" / "prepare.py")
ROOT = os.geteuid() == 0
NOBODY = 65534


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache folder with the programs that a run of one kernel needs."""
    home = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        variants = programs.variants([("blocking", False)], environment.probe_mpi()["handle"])
        programs.fill_cache(variants, lambda sentence: None)
    return home / "pingpong"


def copied(folder, to):
    to.mkdir(parents=True, mode=0o700)
    for entry in folder.glob("*-*"):
        (to / entry.name).write_bytes(entry.read_bytes())


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The two folders that a cache may be, neither of which is there."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "home" / "cache" / "pingpong", tmp_path / "temporary" / f"pingpong-{os.geteuid()}"


def mode(path):
    return path.stat().st_mode & 0o777


# The folder


def test_the_folder_and_what_is_in_it_are_closed_to_others(places):
    before = os.umask(0)
    try:
        cache.open_cache().write("name", b"code")
    finally:
        os.umask(before)
    (entry,) = places[0].iterdir()
    assert (entry.name, entry.read_bytes()) == ("name", b"code")
    assert mode(places[0]) == 0o700 and mode(entry) == 0o600


def test_without_the_variable_it_is_in_the_home_folder(places, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for relative_or_none in ("", "cache"):  # the XDG specification ignores a relative path
        monkeypatch.setenv("XDG_CACHE_HOME", relative_or_none)
        assert cache.open_cache().path == tmp_path / "me" / ".cache" / "pingpong"


def opened_to(bits):
    return lambda folder: folder.chmod(0o700 | bits)


def given_away(folder):
    os.chown(folder, NOBODY, NOBODY)


def linked(folder):
    elsewhere = folder.with_name("elsewhere")
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


def dangling(folder):
    folder.rmdir()
    folder.symlink_to("nowhere")


def a_file(folder):
    folder.rmdir()
    folder.write_text("precious")


UNSAFE = {
    "group reads": opened_to(0o040),
    "group writes": opened_to(0o020),
    "others read": opened_to(0o004),
    "others write": opened_to(0o002),
    "others enter": opened_to(0o001),
    "somebody else's": given_away,
    "a link": linked,
    "a link to nowhere": dangling,
    "a file": a_file,
}


# Only root can give a folder away.
CAUSED = {name: spoil for name, spoil in UNSAFE.items() if ROOT or spoil is not given_away}


@pytest.mark.parametrize("spoil", CAUSED.values(), ids=CAUSED)
def test_a_folder_that_others_could_have_written_to_is_not_used(places, spoil):
    for folder in places:
        folder.mkdir(parents=True, mode=0o700)
    spoil(places[0])
    with_one = cache.open_cache()
    spoil(places[1])
    assert with_one.path == places[1] and cache.open_cache() is None
    assert places[0].is_file() or not places[0].exists() or list(places[0].iterdir()) == []


def test_where_no_file_can_hold_anything_there_is_no_cache(tmp_path):
    """As on a full disk: neither home nor any folder for temporary files."""
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
        "from pingpong.native import cache; print(cache.open_cache())"
    )
    env = dict(os.environ) | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_an_entry_for_which_there_is_no_room_is_no_error_and_leaves_nothing(places):
    found = cache.open_cache()
    found.write("small", b"code")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        found.write("large", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in places[0].iterdir()] == ["small"]
    assert found.read("large") is None and found.read("small") == b"code"


def test_many_processes_open_one_folder_at_once(tmp_path):
    script = (
        "import sys; from pathlib import Path; from pingpong.native.cache import Cache\n"
        "for _ in range(500): Cache(Path(sys.argv[1])).close()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pingpong")]
    together = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(p.communicate(timeout=60)[1], p.returncode) for p in together] == [("", 0)] * 3


# Entries


def test_an_entry_with_any_byte_changed_or_missing_is_the_program_or_nothing(filled):
    (entry,) = filled.glob("blocking-*")
    whole = entry.read_bytes()
    program = programs._unpacked(whole)
    assert program is not None
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        assert programs._unpacked(bytes(flipped)) in (None, program)
        assert programs._unpacked(whole[:at]) is None


@pytest.mark.parametrize(
    "data", [None, b"", b"\0\xff" * 999, b"5", b"[]", b"{}", b'{"entry": 5, "code": "", "sum": 0}']
)
def test_what_is_no_entry_is_nothing(data):
    assert programs._unpacked(data) is None


def test_damaged_entries_are_compiled_again_and_the_run_works(filled, tmp_path):
    folder = tmp_path / "cache" / "pingpong"
    copied(filled, folder)
    blocking, empty = sorted(folder.iterdir())
    flipped = bytearray(blocking.read_bytes())
    flipped[len(flipped) // 2] ^= 0x10
    blocking.write_bytes(flipped)
    if ROOT:
        os.chown(empty, NOBODY, NOBODY)
    else:
        empty.write_bytes(empty.read_bytes()[:2000])
    env = dict(os.environ) | {"XDG_CACHE_HOME": str(folder.parent)}
    done = subprocess.run(
        [PINGPONG, "run", "--loop", "native", "-k", "blocking", "-m", "8", "-n", "30", "-o", "r.json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    points = store.load(tmp_path / "r.json").runs[0].points
    assert [(p.loop, sum(len(v.seconds) for v in p.visits)) for p in points] == [("native", 30)]
    assert "compiling" in done.stderr
    for entry in (blocking, empty):
        assert programs._unpacked(entry.read_bytes()) and entry.stat().st_uid == os.geteuid()


def test_a_full_disk_is_no_place_for_a_cache(filled, tmp_path):
    """A tmpfs without room in a mount namespace of its own; no rights are needed beyond user namespaces."""
    disk, temporary = tmp_path / "disk", tmp_path / "temporary"
    disk.mkdir()
    copied(filled, temporary / "pingpong-0")  # whose number is 0 there
    rights = ["--mount"] if ROOT else ["--mount", "--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=8k tmpfs "$0" && cat /dev/zero >"$0/fill" 2>&-; "$@" && ls -A "$0/pingpong"'
    env = dict(os.environ) | {"XDG_CACHE_HOME": str(disk), "TMPDIR": str(temporary)}
    done = subprocess.run(
        ["unshare", *rights, "sh", "-c", script, str(disk), sys.executable, PREPARE],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr


def test_what_others_compiled_and_cannot_be_loaded_here_is_done_without(filled, tmp_path):
    (tmp_path / "llvmlite.py").write_text("raise OSError('no LLVM, for this test')")
    env = dict(os.environ) | {"XDG_CACHE_HOME": str(filled.parent), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, PREPARE], env=env, capture_output=True, text=True, check=True)
    reason = "llvmlite could not load them: no LLVM, for this test"
    assert done.stdout == f"[Absent(kernel='blocking', large=False, reason='{reason}')]\n"
