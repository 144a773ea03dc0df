"""The pattern and its check, on plain arrays: MPI is not started."""

import mpi4py

mpi4py.rc.initialize = False

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from pingpong.measure import payload  # noqa: E402
from pingpong.measure.buffers import PAGE, Buffers, aligned  # noqa: E402
from tests.builders import steady  # noqa: E402

TILE = payload.TILE
SIZES = [0, 1, 7, 8, 4096, TILE - 1, TILE, TILE + 1, 2 * TILE + 3]


def pattern(size, sender=0, visit=1):
    array = np.zeros(size, np.uint8)
    payload.write([array], sender, visit)
    return array


@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_right(size):
    assert payload.first_wrong([pattern(size)], 0, 1) is None


@pytest.mark.parametrize("size", SIZES)
def test_before_a_message_comes_every_byte_is_wrong(size):
    """So that a message which did not come, or came in part, is seen whatever the pattern is."""
    array = np.zeros(size, np.uint8)
    payload.clear([array], 0, 1)
    assert np.all(array != pattern(size))
    if size:
        slot, byte, expected, found = payload.first_wrong([array], 0, 1)
        assert (slot, byte) == (0, 0) and (expected, found) == (pattern(size)[0], 255 - pattern(size)[0])


@pytest.mark.parametrize("came", [1, 4095, TILE, TILE + 1])
def test_a_message_that_came_in_part_is_wrong_where_it_ends(came):
    size = TILE + 100
    array = np.zeros(size, np.uint8)
    payload.clear([array], 0, 1)
    array[:came] = pattern(size)[:came]
    assert payload.first_wrong([array], 0, 1)[1] == came


@steady
@given(st.data())
def test_any_wrong_byte_is_found_with_its_place_and_values(data):
    size = data.draw(st.sampled_from([size for size in SIZES if size]))
    at = data.draw(st.integers(0, size - 1))
    flip = data.draw(st.integers(1, 255))
    array = pattern(size)
    right = int(array[at])
    array[at] ^= flip
    assert payload.first_wrong([array], 0, 1) == (0, at, right, right ^ flip)


def test_the_first_of_several_wrong_bytes_and_buffers_is_named():
    buffers = [pattern(100), pattern(100), pattern(100)]
    buffers[1][[20, 50]] ^= 1
    buffers[2][3] ^= 1
    assert payload.first_wrong(buffers, 0, 1)[:2] == (1, 20)


@pytest.mark.parametrize("size", [8, 64, 4096, TILE + 5])
def test_a_message_of_another_visit_sender_or_size_is_wrong(size):
    for other in (
        pattern(size, visit=2),
        pattern(size, sender=1),
        pattern(size + 1)[:size],
        pattern(2 * size)[:size],
    ):
        assert payload.first_wrong([other], 0, 1) is not None


@pytest.mark.parametrize("size", [8, 1024])
def test_no_visit_of_a_long_run_has_the_pattern_of_one_before(size):
    seen = {pattern(size, visit=visit).tobytes() for visit in range(1000)}
    assert len(seen) == 1000


def test_the_pattern_does_not_repeat_at_pages():
    array = pattern(64 * PAGE)
    pages = {array[at : at + PAGE].tobytes() for at in range(0, len(array), PAGE)}
    assert len(pages) == 64


def test_two_buffers_of_one_message_are_written_alike_and_independently():
    first, second = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    payload.write([first, second], 0, 1)
    first[:] = 0
    assert payload.first_wrong([second], 0, 1) is None


@pytest.mark.parametrize("size", [1, PAGE, PAGE + 1])
def test_buffers_begin_on_a_page(size):
    array = aligned(size)
    assert array.size == size and array.dtype == np.uint8
    assert array.ctypes.data % PAGE == 0


def test_all_buffers_are_apart_and_cut_to_size():
    buffers = Buffers(1000, sends=2, receives=2)
    arrays = [*buffers.out(10, 2), *buffers.into(10, 2)]
    assert [a.size for a in arrays] == [10] * 4
    for n, array in enumerate(arrays):
        array[:] = n
    assert [set(a.tolist()) for a in arrays] == [{0}, {1}, {2}, {3}]
    assert len(buffers.out(1000, 1)) == 1 and buffers.out(1000, 1)[0].size == 1000
    # the smaller size is the beginning of the same memory
    assert buffers.out(1000, 1)[0].ctypes.data == buffers.out(10, 1)[0].ctypes.data
