"""Run as a script: what the MPI that mpi4py loads, its libfabric and its UCX say about themselves, as JSON.

A process of its own, because a broken library may abort. MPI is loaded, not initialised. Arguments: libraries
that MPI itself would load later, and "providers=FOLDER" where libfabric's providers are files in a folder.
"""

import ctypes
import json
import os
import re
import sys
from contextlib import suppress

_PROVIDERS_ONLY = 1 << 54  # FI_PROV_ATTR_ONLY: what is built in, whether or not there is a device
_API = (1 << 16) | 17  # the layouts below have not changed since before this version
_CONFIG, _DOC, _HIDDEN = 1, 4, 8  # of ucs_config_print_flags_t; the texts name inherited variables


class _Named(ctypes.Structure):
    """The head of struct fi_domain_attr."""

    _fields_ = (("_handle", ctypes.c_void_p), ("name", ctypes.c_char_p))


class _Fabric(ctypes.Structure):
    _fields_ = (("_handle", ctypes.c_void_p), ("name", ctypes.c_char_p), ("provider", ctypes.c_char_p))


class _Info(ctypes.Structure):
    pass


_Info._fields_ = (
    ("next", ctypes.POINTER(_Info)),
    ("_caps", ctypes.c_uint64 * 2),
    ("_format", ctypes.c_uint32),
    ("_lengths", ctypes.c_size_t * 2),
    ("_pointers", ctypes.c_void_p * 6),
    ("domain", ctypes.POINTER(_Named)),
    ("fabric", ctypes.POINTER(_Fabric)),
)


class _Param(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("_type", ctypes.c_int),
        ("_help", ctypes.c_char_p),
        ("_value", ctypes.c_char_p),
    )


def main(arguments: list[str]) -> None:
    """Print what was found out; a key is absent where its library is, or is another one than expected."""
    found: dict[str, object] = {}
    with suppress(Exception):
        found["library"] = _mpi()
    for argument in arguments:
        if argument.startswith("providers="):
            os.environ["FI_PROVIDER_PATH"] = argument.removeprefix("providers=")
            continue
        with suppress(OSError):
            ctypes.CDLL(argument)
    found["mapped"] = mapped = _mapped()
    libraries = {path.rpartition("/")[2].partition(".so")[0]: path for path in mapped}
    with suppress(KeyError, AttributeError, OSError):
        found |= _fabric(ctypes.CDLL(libraries["libfabric"]))
    with suppress(KeyError, AttributeError, OSError):
        found["ucx"] = _ucx(*(ctypes.CDLL(libraries[name]) for name in ("libucs", "libuct")))
    print(json.dumps(found))


def _mpi() -> str:
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return MPI.Get_library_version().strip("\0\n ")


def _mapped() -> list[str]:
    """The shared libraries in this process."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        paths = [line[line.index("/") :].strip() for line in maps if "/" in line]
    return list(dict.fromkeys(path for path in paths if ".so" in path))


def _fabric(library: ctypes.CDLL) -> dict[str, object]:
    """Providers that are built in, those that find a device (with it), and the variables that they read."""
    library.fi_version.restype = ctypes.c_uint32
    version = min(library.fi_version(), _API)
    built_in = {provider for provider, _ in _providers(library, version, _PROVIDERS_ONLY)}
    usable = _providers(library, version, 0)
    parameters, count = ctypes.POINTER(_Param)(), ctypes.c_int(0)
    library.fi_getparams(ctypes.byref(parameters), ctypes.byref(count))
    names = [parameters[n].name.decode() for n in range(count.value)]
    return {"providers": sorted(built_in), "usable": list(dict.fromkeys(usable)), "fi": names}


def _providers(library: ctypes.CDLL, version: int, flags: int) -> list[tuple[str, str]]:
    info = ctypes.POINTER(_Info)()
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    library.fi_getinfo.argtypes = (ctypes.c_uint32, text, text, ctypes.c_uint64, pointer, pointer)
    library.fi_getinfo(version, None, None, flags, None, ctypes.byref(info))
    found = []
    while info:
        one = info.contents
        domain = one.domain.contents.name if one.domain else None
        found.append((one.fabric.contents.provider.decode(), (domain or b"").decode()))
        info = one.next
    return found


def _ucx(ucs: ctypes.CDLL, uct: ctypes.CDLL) -> list[str]:
    """The variables that UCX reads, those of its modules too: what `ucx_info -f` prints."""
    components, number = ctypes.c_void_p(), ctypes.c_uint()
    uct.uct_query_components(ctypes.byref(components), ctypes.byref(number))  # loads the modules
    libc, text, length = ctypes.CDLL(None), ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = pointer = ctypes.c_void_p
    stream = pointer(libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    tables = ctypes.addressof(ctypes.c_char.in_dll(ucs, "ucs_config_global_list"))
    flags = _CONFIG | _DOC | _HIDDEN
    # The last argument, a filter, came with 1.16; older ones do not look at it.
    ucs.ucs_config_parser_print_all_opts(stream, b"UCX_", flags, pointer(tables), None)
    libc.fclose(stream)
    return sorted(set(re.findall(r"\bUCX_[A-Z0-9_]+", (text.value or b"").decode(errors="replace"))))


if __name__ == "__main__":
    main(sys.argv[1:])
