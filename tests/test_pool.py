"""Cold buffers: where messages go, and what the check of their payload sees."""

import numpy as np
import pytest

from pingpong.measure.pool import Pool

SIZE = 1 << 20


def receive(pool, sender, size, places):
    """What MPI would do: copy a message of the sender's pool to each of these places."""
    message = sender.out(size, 1)[0]
    area = pool.into(SIZE, 1)[0]
    for at in places:
        area[at : at + size] = message


def pair():
    return Pool(SIZE, 1, 1, 0, 1), Pool(SIZE, 1, 1, 1, 0)


@pytest.mark.parametrize("size", [0, 1, 8, 64, 100, 4096])
def test_places_are_apart_inside_the_pool_and_not_in_order(size):
    pool, _ = pair()
    places = pool.take(size, 100)
    ordered = np.sort(places)
    assert len(set(places.tolist())) == 100
    assert ordered[0] >= 0 and ordered[-1] + size <= SIZE
    assert np.diff(ordered).min() >= max(size, 128)  # never two in one line, nor in the one beside it
    assert np.abs(np.diff(places)).min() > 128  # no neighbours one after the other


def test_no_place_comes_again_before_the_pool_is_walked_through():
    pool, _ = pair()
    taken = np.concatenate([pool.take(4096, 16) for _ in range(SIZE // (16 * 4096))])
    assert len(set(taken.tolist())) == SIZE // 4096
    assert pool.take(4096, 16).min() == 0


def test_a_visit_may_need_more_places_than_there_are():
    pool, sender = pair()
    places = pool.take(SIZE // 2, 5)
    assert sorted(set(places.tolist())) == [0, SIZE // 2] and len(places) == 5
    assert pool.take(SIZE, 3).tolist() == [0, 0, 0]
    again = pool.take(SIZE // 2, 5).tolist()
    receive(pool, sender, SIZE // 2, again)
    assert pool.first_wrong(SIZE // 2, 1, again) is None


@pytest.mark.parametrize("untouched", ["first", "last", "none"])
def test_what_arrived_whole_is_right_with_receives_posted_ahead_or_not(untouched):
    pool, sender = pair()
    for _ in range(40):  # more than a lap: what was received before must not count again
        places = pool.take(1000, 30).tolist()
        receive(pool, sender, 1000, {"first": places[1:], "last": places[:-1], "none": places}[untouched])
        assert pool.first_wrong(1000, 1, places) is None


def test_a_wrong_byte_a_lost_message_and_another_senders_message_are_seen():
    pool, sender = pair()
    places = pool.take(200, 10).tolist()
    receive(pool, sender, 200, places)
    pool.into(SIZE, 1)[0][places[4] + 77] ^= 0xFF
    slot, byte, expected, found = pool.first_wrong(200, 1, places)
    assert (slot, byte, found) == (0, 77, expected ^ 0xFF)
    places = pool.take(200, 10).tolist()
    receive(pool, sender, 200, places[:5] + places[6:])
    assert pool.first_wrong(200, 1, places)[:2] == (0, 0)
    places = pool.take(200, 10).tolist()
    receive(pool, pool, 200, places)
    assert pool.first_wrong(200, 1, places) is not None


def test_send_buffers_are_never_written_again():
    pool, _ = pair()
    before = pool.out(SIZE, 1)[0].copy()
    pool.first_wrong(64, 1, pool.take(64, 10).tolist())
    assert np.array_equal(before, pool.out(SIZE, 1)[0])
