"""A launch's own folder for temporary files on each host: made there, not assumed, and removed with all in it.

MPIs and their launchers leave sockets, maps of the machine and segments in TMPDIR when they are killed.
"""

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path

TOKEN = "PINGPONG_LAUNCH"  # the variable by which whatever a launch started can be found
_PREFIX = "pingpong-"


def new_token() -> str:
    """What nothing else carries."""
    return uuid.uuid4().hex[:16]


def is_token(text: str) -> bool:
    """Whether a launch can be called so: the name of a folder is made of it."""
    return re.fullmatch("[0-9a-f]{16}", text) is not None


def base() -> Path:
    """This host's folder for temporary files, also where TMPDIR names that of a launch or one of another host."""
    chosen, token = Path(os.environ.get("TMPDIR", "")), os.environ.get(TOKEN)
    if token and chosen.name == _PREFIX + token:
        if os.access(chosen.parent, os.W_OK):
            return chosen.parent
        os.environ.pop("TMPDIR")
    return usable() or Path("/tmp")


def usable() -> Path | None:
    """The folder for temporary files: the first of TMPDIR, /tmp, … that takes a file; None if none does."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def folder(token: str) -> Path:
    """Where the launch has its folder on this host."""
    return base() / (_PREFIX + token)


def make(token: str) -> Path | None:
    """The folder, made if it is not there; None where nothing can be made."""
    with contextlib.suppress(OSError):
        path = folder(token)
        path.mkdir(mode=0o700, exist_ok=True)
        return path
    return None


def settle() -> None:
    """Give this process, which a launcher started, a TMPDIR that is there: its launch's own, or this host's."""
    path = own() or base()
    os.environ["TMPDIR"] = tempfile.tempdir = str(path)


def own() -> Path | None:
    """The folder of the launch that this process belongs to, made if need be; None if it belongs to none."""
    token = os.environ.get(TOKEN)
    return make(token) if token else None


def remove(token: str) -> None:
    """Remove the folder and what was left in it."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder(token), ignore_errors=True)
