"""A folder of the user's own for compiled code, or none: what somebody else could have written is never run."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pingpong import temporary

PATIENCE = 30.0  # seconds for another process to finish compiling; a stopped one must not stop all others
PROBE = bytes(16_384)  # more than a program takes: a full disk has room for an empty file
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Cache:
    """Named byte strings in a folder that only its owner can read or write. Failing to write is no error."""

    def __init__(self, path: Path) -> None:
        """Open or make the folder. Raises OSError where it cannot be, or is not safe."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        self.path = path
        self._folder = os.open(path, _FOLDER)
        try:
            self._check(path)
        except OSError:
            self.close()
            raise

    def _check(self, path: Path) -> None:
        found = os.fstat(self._folder)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{path} can be changed by others")
        with self._partial("probe", PROBE):
            pass

    def close(self) -> None:
        os.close(self._folder)

    def read(self, name: str) -> bytes | None:
        """What was stored under the name, or None."""
        try:
            with os.fdopen(self._open(name, os.O_RDONLY), "rb") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                return file.read()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Store the bytes, whole or not at all."""
        with contextlib.suppress(OSError), self._partial(name, data) as partial:
            os.replace(partial, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    @contextlib.contextmanager
    def _partial(self, name: str, data: bytes) -> Iterator[str]:
        """A file with the bytes, of this process alone; what is left of it under this name goes away."""
        partial = f".{name}.{os.getpid()}"
        try:
            with os.fdopen(self._open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(data)
            yield partial
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=self._folder)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held by one process at a time, as far as the file system can and the others go on."""
        try:
            file = self._open(".lock", os.O_RDWR | os.O_CREAT)
        except OSError:
            yield
            return
        try:
            _acquire(file)
            yield
        finally:
            os.close(file)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._folder)


def _acquire(file: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:  # a file system without locks
            return
        else:
            return


def open_cache() -> Cache | None:
    """The first of the user's cache folder and one for temporary files that is safe and can be written, if any."""
    for path in _places():
        try:
            return Cache(path)
        except OSError:
            continue
    return None


def _places() -> Iterator[Path]:
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if Path(chosen).is_absolute():
        yield Path(chosen) / "pingpong"
    else:
        with contextlib.suppress(RuntimeError):  # nobody's home is known
            yield Path.home() / ".cache" / "pingpong"
    with contextlib.suppress(FileNotFoundError):  # there is none that can be written
        yield temporary.base() / f"pingpong-{os.geteuid()}"
