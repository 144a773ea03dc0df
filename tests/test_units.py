from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pingpong.units import (
    UnitError,
    amount,
    duration,
    micros,
    parse_size,
    parse_sizes,
    perturb,
    significant,
    size_text,
)
from tests.builders import steady


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("8", 8),
        (" 8 ", 8),
        ("8B", 8),
        ("1K", 1024),
        ("1k", 1024),
        ("64Ki", 65536),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        ("64KB", 64000),
        ("8M", 8388608),  # 8 * 2^20
        ("8MiB", 8388608),
        ("8MB", 8000000),
        ("1G", 1073741824),
        ("1GB", 1000000000),
        ("0.5K", 512),
        ("1.5M", 1572864),
    ],
)
def test_letters_alone_are_powers_of_1024_and_kb_powers_of_1000(text, size):
    assert parse_size(text) == size


BAD = ["", "abc", "8X", "-8", "+8", "8KK", "K", "1e3", "0x10", "8,5", "1.5.5", "nan", "inf", "1/2", "8Kib8", "½"]
NOT_WHOLE = ["0.1K", "1.5", "0.5B", "1.0001KB"]


@pytest.mark.parametrize("text", BAD + NOT_WHOLE)
def test_a_bad_size_is_refused_with_its_text(text):
    with pytest.raises(UnitError) as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["9" * 21, "9" * 5000, "9" * 5000 + "K"])
def test_a_size_beyond_any_memory_is_refused_with_its_beginning(text):
    with pytest.raises(UnitError, match="9" * 20):
        parse_size(text)


@pytest.mark.parametrize("text", ["9" * 400 + ".0", "9" * 5000 + ".5G"])
def test_a_huge_size_with_a_point_is_refused_too(text):
    with pytest.raises(UnitError, match="9" * 20):
        parse_size(text)


@steady
@given(st.integers(0, 10**6), st.sampled_from([("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("K", 2**10)]))
def test_a_decimal_fraction_is_taken_exactly(thousandths, unit):
    letter, factor = unit
    text = f"{thousandths // 1000}.{thousandths % 1000:03d}{letter}"
    exact = Fraction(thousandths, 1000) * factor
    if exact.denominator == 1:
        assert parse_size(text) == exact
    else:
        with pytest.raises(UnitError):
            parse_size(text)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8", [8]),
        ("8:64", [8, 16, 32, 64]),
        ("8:8", [8]),
        ("8:60", [8, 16, 32]),
        ("3:20", [3, 6, 12]),
        ("0:8", [0, 1, 2, 4, 8]),
        ("0:0", [0]),
        ("8:8K:x4", [8, 32, 128, 512, 2048, 8192]),
        ("0:100:x10", [0, 1, 10, 100]),
        ("1KB:8KB", [1000, 2000, 4000, 8000]),
        ("64K,0,1,1000", [0, 1, 1000, 65536]),
        ("16,8:32,16", [8, 16, 32]),
        (" 8 , 16 : 32 ", [8, 16, 32]),
    ],
)
def test_size_lists_and_ranges(text, sizes):
    assert parse_sizes(text) == sizes


def test_the_default_range_has_a_size_for_each_power_of_two():
    assert parse_sizes("8:8M") == [2**n for n in range(3, 24)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "''"),
        ("8,,16", "'8,,16'"),
        ("8,abc", "'abc'"),
        ("8:abc", "'abc'"),
        ("64:8", "'64:8'"),
        ("8:64:4", "'8:64:4'"),
        ("8:64:x1", "'8:64:x1'"),
        ("8:64:x0", "'8:64:x0'"),
        ("8:64:x", "'8:64:x'"),
        ("8:64:x-2", "'8:64:x-2'"),
        ("8:64:x2.5", "'8:64:x2.5'"),
        ("8:64:x2:x2", "'8:64:x2:x2'"),
        ("8:64:x" + "9" * 5000, "8:64:x999"),
        (":64", "':64'"),
        ("8:", "'8:'"),
        (":", "':'"),
    ],
)
def test_a_bad_list_or_range_is_refused_with_its_text(text, named):
    with pytest.raises(UnitError) as caught:
        parse_sizes(text)
    assert named in str(caught.value)


def test_perturb_adds_the_neighbours_and_drops_negative_sizes():
    assert perturb([8, 64], 3) == [5, 8, 11, 61, 64, 67]
    assert perturb([0, 2], 3) == [0, 2, 3, 5]  # -3 and -1 are no sizes
    assert perturb([8, 9], 1) == [7, 8, 9, 10]  # each once


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (8, "8"), (1000, "1000"), (1024, "1K"), (1536, "1536"), (2**20, "1M"), (8 * 2**20, "8M")],
)
def test_size_text_is_the_shortest_exact_form(size, text):
    assert size_text(size) == text


@steady
@given(st.one_of(st.integers(0, 2**64), st.integers(0, 2**34).map(lambda n: n << 30)))
def test_size_text_is_read_back(size):
    assert parse_size(size_text(size)) == size


@steady
@given(st.floats(1e-9, 1e12), st.integers(1, 6), st.sampled_from([1, -1]))
def test_significant_digits_are_enough_not_too_many_and_rounded_correctly(value, digits, sign):
    text = significant(sign * value, digits)
    whole, _, fraction = text.lstrip("-").partition(".")
    assert len((whole + fraction).lstrip("0")) >= digits
    if fraction:  # then the whole digits alone were not enough, and one decimal less would not be either
        less = f"{Decimal(value):.{len(fraction) - 1}f}"
        assert len(less.replace(".", "").lstrip("0")) < digits
    exact = Decimal(sign * value)
    assert Decimal(text) == exact.quantize(Decimal(1).scaleb(-len(fraction)), ROUND_HALF_EVEN)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 3, "0"),
        (0.9999, 3, "1.00"),  # rounding carries into a new digit
        (9.996, 3, "10.0"),
        (0.0012345, 3, "0.00123"),
        (123456.7, 3, "123457"),  # whole digits are never cut
        (12.0, 4, "12.00"),
    ],
)
def test_significant_by_hand(value, digits, text):
    assert significant(value, digits) == text


def test_micros_has_no_unit():
    assert micros(1.23456e-6) == "1.23"
    assert micros(0.4731e-6) == "0.473"
    assert micros(28445e-6) == "28445"


@pytest.mark.parametrize(
    ("seconds", "number", "unit"),
    [
        (0.0, 0, "s"),
        (85e-9, 85, "ns"),
        (1.234e-6, 1.23, "µs"),
        (12.34e-3, 12.3, "ms"),
        (2.0, 2, "s"),
        (3600.0, 3600, "s"),
        (0.99996e-6, 1, "µs"),  # not "1000 ns"
        (0.99996, 1, "s"),  # not "1000 ms"
        (0.9990, 999, "ms"),
        (-1.234e-6, -1.23, "µs"),
    ],
)
def test_duration_takes_the_unit_in_which_people_say_it(seconds, number, unit):
    text, said = duration(seconds).split(" ")
    assert (float(text), said) == (number, unit)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (57_790_000, "57.8 MB"),
        (999_960, "1.00 MB"),
        (1.25e9, "1.25 GB"),
    ],
)
def test_amounts_are_in_powers_of_1000(size, text):
    assert amount(size) == text
