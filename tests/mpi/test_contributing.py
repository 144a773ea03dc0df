"""The worked example of CONTRIBUTING.md is a kernel that keeps the contract."""

import re
from pathlib import Path

import pytest

from pingpong.kernels import KERNELS

from . import test_kernels as contract

pytestmark = pytest.mark.mpi(min_size=2)

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


@pytest.fixture
def example():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    before = set(KERNELS)
    exec(code, {})
    (name,) = set(KERNELS) - before
    yield name
    del KERNELS[name]


def test_the_worked_example_keeps_the_contract(example):
    for steps in contract.STEPS:
        contract.test_messages_legs_and_directions_are_those_of_the_table(example, "mpi4py", steps)
        contract.test_nothing_is_left_posted_or_unreceived(example, "mpi4py", steps)
    contract.test_payload_arrives_in_every_receive_buffer(example, "mpi4py", 4096)
