"""The worked example of CONTRIBUTING.md is a kernel that keeps the contract."""

import re
from pathlib import Path

import pytest
from mpi4py import MPI

from pingpong.kernels import KERNELS
from pingpong.native import programs

from . import test_kernels as contract

pytestmark = pytest.mark.mpi(min_size=2)

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


@pytest.fixture
def example():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    before = set(KERNELS)
    exec(code, {})
    (name,) = set(KERNELS) - before
    from pingpong.native import compiler, loader

    # In this process: the compiler's own would look for the kernel in the package.
    entry, code = compiler.compile_twin(KERNELS[name].native, MPI._sizeof(MPI.Comm), large=False)
    programs._loaded[name, False] = loader.load(entry, code)
    yield name
    del KERNELS[name]


@pytest.mark.parametrize("loop", ["mpi4py", "native"])
def test_the_worked_example_keeps_the_contract(example, loop):
    for steps in contract.STEPS:
        contract.test_messages_legs_and_directions_are_those_of_the_table(example, loop, steps)
        contract.test_nothing_is_left_posted_or_unreceived(example, loop, steps)
    contract.test_payload_arrives_in_every_receive_buffer(example, loop, 4096, False)
