"""Compiles the twins of kernels to object code. Run as a program, in a process of its own, because it may die.

    python -m pingpong.native.compiler '{"kernels": ["blocking"], "handle": 8, "large": false}'

prints one line of JSON: for each kernel the entry point's name and the object in base64.
"""

import sys

# The working folder comes first, so that Python finds this package; what else it holds is not meant.
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

import base64
import json
from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pingpong.kernels import KERNELS
from pingpong.native import LEAD, PEER, POST_LEAD, Twin, loader
from pingpong.native.calls import CALLS, COUNT, HANDLE, INDEXED, INT, KINDS, POINTER, WORD, WORDS, Call

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_CLOCK_MONOTONIC = 1
LEAD_IN, STEPS, SAMPLES, STAMPS = (WORD[name] for name in ("lead_in", "steps", "samples", "stamps"))
SLOTS, OUT, HOMES, OFFSETS = (WORD[name] for name in ("slots", "out", "homes", "offsets"))


def compile_twin(twin: Twin, handle: int, large: bool) -> tuple[str, bytes]:
    """The entry point's name and the object code of a kernel. `handle` is the width of MPI's handles in bytes."""
    types_of = {POINTER: _I64.as_pointer(), INT: _I32, HANDLE: _I64 if handle == 8 else _I32}
    types_of[COUNT] = _I64 if large else _I32
    calls = {call: _emitter(call, types_of) for call in CALLS}
    none = numba.njit(lambda _mpi: 0)
    lead, peer, *posts = (_bound(f, calls) if f else none for f in twin.parts())
    compiled = numba.cfunc(types.int64(types.int64, types.int64), nogil=True)(
        _main(_lead_loop(lead), _peer_loop(peer), *posts)
    )
    return compiled.native_name, _object(compiled.native_name, compiled.inspect_llvm())


def _object(entry: str, code: str) -> bytes:
    """The object code of a module that nobody enters but through `entry`, and that leans on nothing outside.

    numba prepares for exceptions, which steps do not raise. Optimised once more, with that known, what it would
    need of Python and numba for them is gone.
    """
    # For any processor of this kind, so that hosts may share a cache; there is nothing to vectorise.
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, codemodel="jitdefault", jit=True)
    module = llvm.parse_assembly(code)
    for function in module.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    needed = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if needed:
        raise RuntimeError(f"compiled steps would need {', '.join(needed)}: they may only make calls and count")
    return bytes(machine.emit_object(module))


def _bound(step: Callable[..., int], calls: dict[Call, Any]) -> Any:
    """The step with compiled calls in place of the names of calls."""
    globals_ = {n: calls[v] if isinstance(v, Call) else v for n, v in step.__globals__.items()}
    return numba.njit(FunctionType(step.__code__, globals_, step.__name__))


# The loops around the steps: functions that numba compiles, so they are written in what it knows.


def _lead_loop(step: Any) -> Any:
    """Lead-in, then samples of steps with a stamp before the first and after each."""

    @numba.njit
    def loop(mpi):  # type: ignore[no-untyped-def]
        done, moves = 0, _word(mpi, OFFSETS) != 0
        total = _word(mpi, LEAD_IN) + _word(mpi, STEPS) * _word(mpi, SAMPLES)
        for _ in range(_word(mpi, LEAD_IN)):
            if moves:
                _move(mpi, done)
            done += 1
            failed = step(mpi, done == total)  # never: but a literal would make another function to compile
            if failed:
                return failed
        at = _word(mpi, STAMPS)
        _store(at, _now(mpi))
        while done < total:
            for _ in range(_word(mpi, STEPS)):
                if moves:
                    _move(mpi, done)
                done += 1
                _keep()
                failed = step(mpi, done == total)
                if failed:
                    return failed
            at += 8
            _store(at, _now(mpi))
        return 0

    return loop


def _peer_loop(step: Any) -> Any:
    """As many steps, and no clock."""

    @numba.njit
    def loop(mpi):  # type: ignore[no-untyped-def]
        done, moves = 0, _word(mpi, OFFSETS) != 0
        total = _word(mpi, LEAD_IN) + _word(mpi, STEPS) * _word(mpi, SAMPLES)
        while done < total:
            if moves:
                _move(mpi, done)
            done += 1
            _keep()
            failed = step(mpi, done == total)
            if failed:
                return failed
        return 0

    return loop


@numba.njit
def _move(mpi, step):  # type: ignore[no-untyped-def]
    """Put all buffers where this step wants them."""
    offset = _word(_word(mpi, OFFSETS), step)
    for slot in range(_word(mpi, SLOTS)):
        _store(_word(mpi, OUT) + 8 * slot, _word(_word(mpi, HOMES), slot) + offset)


def _main(lead: Any, peer: Any, post_lead: Any, post_peer: Any) -> Callable[[int, int], int]:
    def main(mpi, part):  # type: ignore[no-untyped-def]
        if part == LEAD:
            return lead(mpi)
        if part == PEER:
            return peer(mpi)
        return post_lead(mpi) if part == POST_LEAD else post_peer(mpi)

    return main


# What is emitted for a load, a store and a call. All of it lies in memory that the caller owns.


def _at(builder: ir.IRBuilder, address: ir.Value, type_: ir.Type = _I64) -> ir.Value:
    return builder.inttoptr(address, type_.as_pointer())


def _word_of(builder: ir.IRBuilder, mpi: ir.Value, index: int) -> ir.Value:
    return builder.load(_at(builder, builder.add(mpi, _I64(8 * index))))


@intrinsic
def _word(_typing: Any, mpi: Any, index: Any) -> Any:
    """The word with this number."""

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        block, number = arguments
        return builder.load(_at(builder, builder.add(block, builder.mul(number, _I64(8)))))

    return types.int64(mpi, index), emit


@intrinsic
def _store(_typing: Any, address: Any, value: Any) -> Any:
    def emit(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        where, what = arguments
        builder.store(what, _at(builder, where))
        return context.get_dummy_value()

    return types.void(address, value), emit


@intrinsic
def _keep(_typing: Any) -> Any:
    """Nothing, but the compiler cannot know: it would leave out the loop around a step that does nothing."""

    def emit(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> ir.Value:
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def _now(_typing: Any, mpi: Any) -> Any:
    """CLOCK_MONOTONIC in nanoseconds."""

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        (block,) = arguments
        room = _word_of(builder, block, WORD["timespec"])
        read = ir.FunctionType(_I32, [_I32, _I64.as_pointer()])
        clock = _at(builder, _word_of(builder, block, WORD["clock"]), read)
        builder.call(clock, [_I32(_CLOCK_MONOTONIC), _at(builder, room)])
        seconds, nanoseconds = (builder.load(_at(builder, builder.add(room, _I64(n)))) for n in (0, 8))
        return builder.add(builder.mul(seconds, _I64(10**9)), nanoseconds)

    return types.int64(mpi), emit


def _emitter(call: Call, widths: dict[str, ir.Type]) -> Any:
    """The numba function for a call."""
    names = call.arguments.split()
    function = ir.FunctionType(_I32, [widths[KINDS[name]] for name in names])

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        block, *indices = arguments
        values = [_argument(builder, block, name, indices, widths[KINDS[name]]) for name in names]
        address = _word_of(builder, block, len(WORDS) + CALLS.index(call))
        return builder.sext(builder.call(_at(builder, address, function), values), _I64)

    # numba counts the parameters of what it is given.
    def one(_typing: Any, mpi: Any, _index: Any) -> Any:
        return types.int64(mpi, types.int64), emit

    def two(_typing: Any, mpi: Any, _first: Any, _second: Any) -> Any:
        return types.int64(mpi, types.int64, types.int64), emit

    return intrinsic(two if sum(name in INDEXED for name in names) == 2 else one)


def _argument(
    builder: ir.IRBuilder, block: ir.Value, name: str, indices: list[ir.Value], type_: ir.Type
) -> ir.Value:
    if name == "request":
        size, first = (_word_of(builder, block, WORD[word]) for word in ("request_size", "requests"))
        value = builder.add(first, builder.mul(indices.pop(0), size))
    elif name in INDEXED:
        table = _word_of(builder, block, WORD[name])
        value = builder.load(_at(builder, builder.add(table, builder.mul(indices.pop(0), _I64(8)))))
    else:
        value = _word_of(builder, block, WORD[name])
    if type_ == _I64:
        return value
    return builder.trunc(value, type_) if type_ == _I32 else builder.inttoptr(value, type_)


def main(orders: str) -> None:
    asked = json.loads(orders)
    found = {}
    for name in asked["kernels"]:
        twin = KERNELS[name].native
        assert twin is not None
        entry, code = compile_twin(twin, asked["handle"], asked["large"])
        loader.load(entry, code)  # if it cannot be loaded, this process dies and not one that measures
        found[name] = {"entry": entry, "code": base64.b64encode(code).decode()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
