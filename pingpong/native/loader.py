"""Object code to something that can be called: llvmlite alone, which is loaded ten times faster than numba."""

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

Program = Callable[[int, int], int]  # (address of the words, part) -> 0 or MPI's error code

_engines: list[Any] = []  # they own the code


def load(entry: str, code: bytes) -> Program:
    """The function `entry` of an object file. It runs without the interpreter's lock."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    _engines.append(engine)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address(entry))
