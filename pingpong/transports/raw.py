"""Flags as the user writes them: `mine=--mca pml ob1 --mca btl tcp,self`, `mine=UCX_TLS=tcp`, or both."""

import re
import shlex
from collections.abc import Sequence

from pingpong.hosts import NAMING
from pingpong.model import Transport
from pingpong.transports.base import TransportError

_LABEL = re.compile(r"\s*([A-Za-z][\w.-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*|(?:OMPI|PRTE|PMIX)_MCA_\w+)=(.*)", re.DOTALL)
# Words of launchers that say how many ranks there are and where: those belong to the run, not to a transport.
_PLACES = NAMING | {
    "n", "np", "c", "ppn", "perhost", "grr", "rr", "N", "npernode", "npersocket", "map-by", "configfile", "nodes",
    "pernode",
}  # fmt: skip
_TAKES = {"mca": 2, "gmca": 2, "prtemca": 2, "pmixmca": 2, "x": 1, "genv": 2, "env": 2}  # words after an option


def read(text: str, names: Sequence[str]) -> Transport:
    """The label, the variables before the first option, and all words from there on. Raises TransportError."""
    match = _LABEL.fullmatch(text)
    if not match:
        label, _, rest = text.partition("=")
        what = "a label is a letter, then letters, digits, '_', '-' or '.'"
        if "=" in text and not re.match(r"\s*(-|[A-Z][A-Z0-9_]*$)", label):
            raise TransportError(f"{label.strip()!r} is no label of flags: {what}; write -t 'mine={rest.strip()}'")
        raise TransportError(f"flags need a label before the first '=': write -t 'mine={text.strip()}'")
    label, rest = match.groups()
    if label in names:
        raise TransportError(f"{label!r} is a transport's own name: give these flags another label")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise TransportError(f"transport {label!r} cannot be split into words: {error}") from None
    if not words:
        raise TransportError(f"transport {label!r} has no flags after '='")
    environment = {}
    while words and not words[0].startswith("-"):
        variable = _VARIABLE.fullmatch(words[0])
        if not variable:
            raise TransportError(
                f"transport {label!r}: {words[0]!r} is neither NAME=VALUE nor an option of mpiexec"
                + (f"; write -t 'mine={text.strip()}'" if _VARIABLE.fullmatch(text.strip()) else "")
            )
        environment[variable[1]] = variable[2]
        del words[0]
    for word in words:
        if word.startswith("-") and word.lstrip("-").partition("=")[0] in _PLACES:
            raise TransportError(
                f"transport {label!r}: {word} says where ranks run; leave it out, use --hosts for it"
            )
    for flag, values in _TAKES.items():
        for place, word in enumerate(words):
            both = flag in ("genv", "env") and "=" in "".join(
                words[place + 1 : place + 2]
            )  # Hydra takes NAME=VALUE
            if word.lstrip("-") == flag and word.startswith("-") and len(words) - place <= values - both:
                raise TransportError(f"transport {label!r}: {word} needs {values} words after it")
    return Transport(name=label, arguments=words, environment=environment)
