"""Gets compiled programs: from the cache, or from the compiler in a process of its own. Nothing here sees MPI.

All of it happens before MPI starts: the compiler may die, and nobody may compile while messages are measured.
"""

import base64
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pingpong.kernels import KERNELS
from pingpong.native.cache import Cache, open_cache

if TYPE_CHECKING:
    from pingpong.native.loader import Program

OLDEST = (0, 61)  # numba
PATIENCE = 60.0  # seconds for the compiler

Announce = Callable[[str], None]


class UnavailableError(Exception):
    """Why there are no native loops here; the message is the end of a sentence."""


class Variant(NamedTuple):
    """A program: of a kernel, for handles of so many bytes, with calls for large counts or the usual ones."""

    kernel: str
    handle: int
    large: bool


def variants(wanted: Iterable[tuple[str, bool]], handle: int) -> list[Variant]:
    """Those of kernels, with large counts or not, and that of the kernel which shows what the loops cost."""
    return [Variant(kernel, handle, large) for kernel, large in (("empty", False), *wanted)]


class _Code(NamedTuple):
    entry: str
    code: bytes


_loaded: dict[tuple[str, bool], "Program"] = {}


def prepare(variants: Iterable[Variant], announce: Announce) -> None:
    """Compile what the cache does not have, and load everything, for `program`. Raises UnavailableError."""
    found = _codes(variants, open_cache(), announce)
    try:
        from pingpong.native import loader

        for variant, (entry, code) in found.items():
            _loaded[variant.kernel, variant.large] = loader.load(entry, code)
    except Exception as error:  # whatever llvmlite is missing here, where somebody else may have compiled
        raise UnavailableError(f"llvmlite could not load them: {error}") from None


def fill_cache(variants: Iterable[Variant], announce: Announce) -> None:
    """Compile what the cache does not have, if there is a cache: for those who start ranks.

    Raises UnavailableError.
    """
    cache = open_cache()
    if cache:
        _codes(variants, cache, announce)
    else:
        _numba()


def is_loaded(kernel: str, large: bool) -> bool:
    return (kernel, large) in _loaded


def program(kernel: str, large: bool) -> "Program":
    """The program of a kernel that `prepare` has loaded."""
    return _loaded[kernel, large]


def _codes(variants: Iterable[Variant], cache: Cache | None, announce: Announce) -> dict[Variant, _Code]:
    versions = _numba()
    keys = {variant: _key(variant, versions) for variant in variants}
    found = _cached(keys, cache)
    if len(found) < len(keys):
        announce("compiling the native loops (once; takes some seconds)")
        with cache.lock() if cache else nullcontext():
            found = _cached(keys, cache)  # another process may have been faster
            lacking = [variant for variant in keys if variant not in found]
            for handle, large in dict.fromkeys((v.handle, v.large) for v in lacking):
                names = [v.kernel for v in lacking if (v.handle, v.large) == (handle, large)]
                for name, code in _compile(names, handle, large).items():
                    variant = Variant(name, handle, large)
                    found[variant] = code
                    if cache:
                        cache.write(keys[variant], _packed(code))
    return found


def _numba() -> str:
    """The versions of the compiler. Raises UnavailableError."""
    numba, llvmlite = _version("numba"), _version("llvmlite")
    numbers = [int(part) for part in numba.split(".")[:2] if part.isdecimal()]
    if tuple(numbers) < OLDEST:
        raise UnavailableError(f"numba {numba} is too old; {'.'.join(map(str, OLDEST))} or newer is needed")
    return f"{numba} {llvmlite}"


def _version(package: str) -> str:
    found: str | None = None  # of what an interrupted pip left behind there is none
    with suppress(importlib.metadata.PackageNotFoundError, KeyError):
        found = importlib.metadata.version(package)
    if not found:
        raise UnavailableError(f"{package} is not installed; pip install 'mpi-pingpong[native]' brings it")
    return found


def _key(variant: Variant, versions: str) -> str:
    """The name of a program in the cache: everything that its code is made from."""
    twin = KERNELS[variant.kernel].native
    assert twin is not None
    sources = {Path(sys.modules[f.__module__].__file__ or "") for f in twin.functions()}
    sources |= {Path(__file__).with_name(name) for name in ("__init__.py", "calls.py", "compiler.py", "loader.py")}
    digest = hashlib.sha256(f"{variant} {versions} {platform.machine()}".encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return f"{variant.kernel}-{digest.hexdigest()[:32]}"


def _cached(keys: dict[Variant, str], cache: Cache | None) -> dict[Variant, _Code]:
    if cache is None:
        return {}
    read = {variant: _unpacked(cache.read(key)) for variant, key in keys.items()}
    return {variant: code for variant, code in read.items() if code}


def _packed(code: _Code) -> bytes:
    text = {"entry": code.entry, "code": base64.b64encode(code.code).decode(), "sum": _sum(code)}
    return json.dumps(text).encode()


def _unpacked(data: bytes | None) -> _Code | None:
    """None for what a full disk or a crash left: loading half an object would end the process."""
    try:
        text = json.loads(data or b"")
        code = _Code(text["entry"], base64.b64decode(text["code"]))
        return code if text["sum"] == _sum(code) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _sum(code: _Code) -> str:
    return hashlib.sha256(code.entry.encode() + b"\0" + code.code).hexdigest()


def _compile(kernels: list[str], handle: int, large: bool) -> dict[str, _Code]:
    orders = json.dumps({"kernels": kernels, "handle": handle, "large": large})
    # The user's settings of numba are for other programs: some would make no code at all. They may also be a file
    # in the working folder, and modules there may have the names of numba's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    env["NUMBA_OPT"] = "0"  # the compiler optimises once itself, at the end
    command = [sys.executable, "-m", "pingpong.native.compiler", orders]
    folder = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"numba could not compile them in {PATIENCE:g} s") from None
    except OSError as error:
        raise UnavailableError(f"numba could not compile them: {error}") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        return {k: _Code(answer[k]["entry"], base64.b64decode(answer[k]["code"])) for k in kernels}
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        raise UnavailableError(f"numba could not compile them: {_why(done)}") from None


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        try:
            return f"it died of {signal.Signals(-done.returncode).name}"
        except ValueError:
            return f"it died of signal {-done.returncode}"
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return said[-1] if said else f"exit status {done.returncode}"
