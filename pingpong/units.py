"""Text to bytes and percentiles, and seconds to text: the only place where units are read or made.

Inside, everything is bytes and seconds. The field writes 8K for 8192 bytes, and so does this package:
K, M and G alone, or with "i", are powers of 1024; to get powers of 1000 write KB, MB or GB.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

MB = 1e6  # bytes; the MB of every "MB/s" that this package prints
MICRO = 1e-6

_FACTORS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_FACTORS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

SIZE_HELP = "8:8M (powers of two), 8:8M:x4 (powers of four), 0,1,1000,64K; K = Ki = 1024, KB = 1000"


class UnitError(ValueError):
    """A text that is no size or percentile; the message is one sentence for the user."""


def parse_size(text: str) -> int:
    """Bytes from "8", "64K", "64Ki", "64KiB" (all 1024s) or "64KB" (1000s).

    Raises UnitError for anything else, also for a size that is no whole number of bytes.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip(), re.ASCII)
    if not match or match[2].upper() not in _FACTORS:
        raise UnitError(f"{text.strip()!r} is not a size; write it like {SIZE_HELP}")
    # Python refuses to read thousands of digits; no address space needs more than 20.
    if len(match[1].partition(".")[0]) > 20:
        raise UnitError(f"{match[1][:20]}… is larger than any memory")
    size = Fraction(match[1][:40]) * _FACTORS[match[2].upper()]
    if size.denominator != 1:
        raise UnitError(f"{text.strip()!r} is not a whole number of bytes")
    return int(size)


def parse_sizes(text: str) -> list[int]:
    """Ascending sizes in bytes, each once, from a comma list of sizes and ranges FIRST:LAST[:xFACTOR].

    A range starts at FIRST and multiplies by FACTOR (2 if absent) as long as LAST is not exceeded;
    from 0 it goes on with 1. Raises UnitError.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        if not part.strip():
            raise UnitError(f"empty size in {text!r}; write sizes like {SIZE_HELP}")
        sizes.update(_range(part) if ":" in part else [parse_size(part)])
    return sorted(sizes)


def _range(text: str) -> list[int]:
    first, last, *rest = text.split(":")
    if not (first.strip() and last.strip()):
        raise UnitError(f"{text!r} is not a range; write FIRST:LAST or FIRST:LAST:x4")
    low, high = parse_size(first), parse_size(last)
    factor = re.fullmatch(r"x(\d{1,9})", rest[0].strip()) if len(rest) == 1 else None
    step = int(factor[1]) if factor else 2
    if (rest and not factor) or step < 2:
        raise UnitError(f"{text!r} is not a range; write FIRST:LAST or FIRST:LAST:x4")
    if low > high:
        raise UnitError(f"the range {text!r} ends before it starts")
    sizes = []
    while low <= high:
        sizes.append(low)
        low = low * step if low else 1
    return sizes


def parse_percentiles(text: str) -> list[float]:
    """Ascending percentiles in per cent, each once, from a comma list such as "50,99.9".

    Raises UnitError for anything but numbers above 0 and below 100.
    """
    percents: set[float] = set()
    for part in text.split(","):
        number = part.strip()
        if not re.fullmatch(r"\d+(\.\d+)?", number, re.ASCII) or not 0 < float(number) < 100:
            raise UnitError(f"{number[:40]!r} is not a percentile, a number above 0 and below 100")
        percents.add(float(number))
    return sorted(percents)


def percentile_name(percent: float) -> str:
    """p50, p99.9: the name of a percentile in per cent, with all its digits."""
    return f"p{Decimal(repr(percent)).normalize():f}"


def perturb(sizes: Iterable[int], by: int) -> list[int]:
    """Each size and its two neighbours `by` bytes below and above (NetPIPE's perturbation), ascending."""
    return sorted({size + d for size in sizes for d in (-by, 0, by) if size + d >= 0})


def size_text(size: int) -> str:
    """8, 1K, 1M, 1000: the shortest exact form, read back by parse_size."""
    for power, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size and size % 2**power == 0:
            return f"{size >> power}{letter}"
    return str(size)


def significant(value: float, digits: int) -> str:
    """`value` with at least `digits` significant digits, in plain decimals; whole digits are never cut."""
    if value == 0:
        return "0"
    decimals = 0
    # Rounding may carry into a new digit (0.9999 -> 1.00), so the rounded text decides, not the logarithm.
    while decimals < 15 and len(f"{abs(value):.{decimals}f}".replace(".", "").lstrip("0")) < digits:
        decimals += 1
    return f"{value:.{decimals}f}"


def micros(seconds: float, digits: int = 3) -> str:
    """Seconds as microseconds with `digits` significant digits at least, without a unit."""
    return significant(seconds / MICRO, digits)


def duration(seconds: float) -> str:
    """A duration for people: "85.0 ns", "1.23 µs", "12.3 ms", "2.00 s"."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= scale * 0.9995:
            return f"{significant(seconds / scale, 3)} {unit}"
    return f"{significant(seconds / 1e-9, 3)} ns" if seconds else "0 s"


def amount(size: float) -> str:
    """Bytes for people, in powers of 1000: "57.8 MB", "11.6 kB", "800 B"."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size) >= scale * 0.9995:
            return f"{significant(size / scale, 3)} {unit}"
    return f"{size:.0f} B"


def printable(text: str) -> str:
    """`text` with control characters and broken encodings written out: names from files and hosts are data."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
