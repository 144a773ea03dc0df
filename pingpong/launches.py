"""The launches of a session: their command lines, the way of their journals, and what they must not leave."""

import os
import re
import shlex
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pingpong import environment, launch, relay, store
from pingpong.launch import Ended, Limit, UselessError
from pingpong.launchers import Launcher, places
from pingpong.model import Transport
from pingpong.progress import Progress
from pingpong.request import Job, Request
from pingpong.say import say
from pingpong.temporary import TOKEN
from pingpong.transports import Here, spelling
from pingpong.transports.beforehand import Beside, Setting, beside

# What MPI says when it has not started on a host; those on the others would wait for a minute.
_FATAL = re.compile(rb"Fatal error in \w*Init(?:_thread)?:")
# What Open MPI says when it goes on without the interface that it was told to use.
_IGNORED = re.compile(rb"invalid value was given for btl_tcp_if_include")
HOPELESS = 3.0  # seconds that mpiexec gets to end after that
SWEEP = Limit(10.0, "the hosts cannot be reached")
# Beside what steers an MPI: what a rank on another host needs in order to be the same program.
_SAME_PROGRAM = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "XDG_CACHE_HOME")
_ON_THEIR_OWN = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")  # what Open MPI passes on without being told
_NOTHING = Transport(name="")


def travelling(env: Mapping[str, str], others: Iterable[str] = ()) -> list[str]:
    """The variables that ranks on other hosts must have too."""
    steering = [n for n in environment.steering(env) if not n.startswith(_ON_THEIR_OWN)]
    return list(dict.fromkeys([*steering, *(name for name in (*_SAME_PROGRAM, *others) if name in env)]))


class Launches:
    """Starts the launches of a request. `spoken` makes MPI say which wire it uses; `settings` came before."""

    def __init__(
        self, request: Request, launcher: Launcher, here: Here, spoken: Transport, settings: Sequence[Setting]
    ) -> None:
        self._request, self._launcher, self._here = request, launcher, here
        self._spoken, self._settings = spoken, settings
        self._told = False

    def line(self, job: Job) -> str:
        """The command line of a launch for a shell, with what the user asked to measure."""
        asked = job.transport or _NOTHING
        ours = self._launcher.needs() | self._spoken.environment
        own = {name: value for name, value in ours.items() if name not in os.environ} | asked.environment
        variables = [f"{name}={shlex.quote(value)}" for name, value in own.items()]
        program = [*self._program(), *self._request.words]
        command = self._command(program, job, [])
        return " ".join([*variables, shlex.join(command)])

    def run(self, job: Job, path: Path, limit: Limit, progress: Progress) -> Ended:
        """Start a launch, follow it into the journal at `path` until it ends, and clean up behind it."""
        asked = job.transport or _NOTHING
        orders = self._request.orders(job, environment.identity(), self.beside(job).warnings(job.transport))
        program = [*self._program(), "--worker", orders, "-o", str(path.absolute())]
        command = self._command(program, job, [TOKEN])
        self._tell(command[:-3])
        ended, moved = self._follow(command, asked, job.number, path, limit, progress)
        if launch.stumbled(ended) and not moved and not ended.signal:
            say(f"{self._launcher.path.name} could not set itself up and started no rank; trying once more")
            ended, _ = self._follow(command, asked, job.number, path, limit, progress)
        if ended.status or ended.limit or ended.useless or ended.signal:
            self._sweep(ended.token)
        return ended

    def _follow(
        self, command: list[str], asked: Transport, number: int, path: Path, limit: Limit, progress: Progress
    ) -> tuple[Ended, bool]:
        """How the launch ended, and whether it had begun to measure."""
        request, receiver, follower = self._request, relay.Receiver(path), store.Follower(path)
        follower.skip()  # the launches before
        hopeless = _Hopeless(asked)

        def alive(output: bytes) -> float | None:
            hopeless.hear(output)
            try:
                receiver.hear(output)
                moved = follower.poll()
            except OSError as error:
                raise UselessError(f"cannot write the result: {error.strerror}") from None
            except (zlib.error, store.FormatError) as error:
                raise UselessError(f"the result cannot be followed: {error}") from None
            if not moved or follower.session is None:
                return None
            progress.update(follower.session, number)
            if request.plan.method == "duration" and request.show:
                with progress.aside():
                    request.show(follower.session, False)
            return max(follower.patience, launch.START_LIMIT if not follower.patience else 0.0)

        ended = launch.launch(command, self._environment(asked), limit, alive)
        follower.close()
        return ended, bool(follower.patience)

    def beside(self, job: Job) -> Beside:
        """What was set beforehand, beside what a launch sets."""
        own = Transport(name="", arguments=self._request.mpiexec_args)
        setting = (own, self._spoken, job.transport or _NOTHING)
        given = [name for each in setting for name in spelling.variables(each)]
        return beside(job.transport, given, self._settings, self._here)

    def _program(self) -> list[str]:
        """A rank, by its whole path: other hosts need not have it on PATH."""
        bind = self._request.hosts and not places(self._request.mpiexec_args)
        return [sys.executable, "-m", "pingpong", "run", *(["--bind"] if bind else [])]

    def _command(self, program: list[str], job: Job, variables: list[str]) -> list[str]:
        asked, before = job.transport or _NOTHING, self.beside(job)
        given = [*self._request.mpiexec_args, *before.arguments, *asked.arguments]
        # Launchers refuse to be told twice; the user's word goes.
        extra = [*([] if set(given) & set(self._spoken.arguments[1:2]) else self._spoken.arguments), *given]
        program = before.keeping(program)
        variables += [name for name in self._steering(asked) if name not in before.unset]
        if self._request.hosts:
            return self._launcher.across(2, self._request.hosts, program, variables, extra)
        return self._launcher.command(2, program, environment.own_cpus(), environment.own_cores(), extra)

    def _environment(self, asked: Transport) -> dict[str, str]:
        """Of two values for a variable, that of the transport wins, then the user's own."""
        return self._launcher.environment() | self._spoken.environment | os.environ | asked.environment

    def _steering(self, asked: Transport) -> list[str]:
        return travelling(self._environment(asked), [*self._spoken.environment, *asked.environment])

    def _tell(self, command: list[str]) -> None:
        if (
            not self._told
            and "OMPI_ALLOW_RUN_AS_ROOT" in self._launcher.needs()
            and "OMPI_ALLOW_RUN_AS_ROOT" not in os.environ
        ):
            say("you are root, which Open MPI refuses by default: allowed for this launch")
        self._told = True
        if self._request.verbose:
            say("starting " + shlex.join(command) + " …")

    def _sweep(self, token: str) -> None:
        """End on every host what a launch that went wrong may have left: ranks outlive their mpiexec there."""
        hosts = self._request.hosts
        if len(hosts) > 1 or (hosts and hosts[0] != environment.rank_facts(0).host):
            program = [sys.executable, "-m", "pingpong", "sweep", token]
            command = self._launcher.across(
                len(hosts), hosts, program, [TOKEN, *self._steering(_NOTHING)], self._request.mpiexec_args
            )
            launch.launch(command, self._environment(_NOTHING), SWEEP, lambda _: SWEEP.seconds, heed=False)


class _Hopeless:
    """Whether a launch of a transport will come to nothing, by what MPI prints."""

    def __init__(self, asked: Transport) -> None:
        self._signs = [_FATAL, *([_IGNORED] if (asked.carrier or "").startswith("net") else [])]
        self._since: float | None = None

    def hear(self, output: bytes) -> None:
        """Raises UselessError some seconds after the first sign."""
        if self._since is None and any(sign.search(output) for sign in self._signs):
            self._since = time.monotonic()
        if self._since and time.monotonic() - self._since > HOPELESS:
            raise UselessError("MPI did not start as it was asked to, and mpiexec waits all the same")
