"""The house plan of docs/design.md: who may see what."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pingpong"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Third-party module -> the parts of the package that may import it.
ALLOWED = {
    "mpi4py": (
        "worker",
        "head",
        "kernels",
        "measure",
        "environment",
        "native.loops",
        "transports.probe",
        "doctor.rank",
    ),
    "numba": ("native.compiler",),
    "llvmlite": ("native.compiler", "native.loader"),
    "matplotlib": ("plots",),
    "click": ("cli",),
    "rich": ("progress", "texts.tables"),
    "msgspec": ("model", "store", "recorder", "request", "across", "texts.tables", "doctor.facts", "doctor.lines"),
    "numpy": ("stats", "across", "measure", "native.loops"),
}
# What runs under mpiexec never imports these.
NOT_IN_WORKERS = {"scipy", "matplotlib", "jinja2", "pandas", "numba"}


def name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(path):
    """Full names of what a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_third_party_modules_stay_where_they_belong(path):
    for full in imported(path):
        top = full.partition(".")[0]
        if top in ALLOWED:
            allowed = ALLOWED[top]
            assert any(name(path) == a or name(path).startswith(a + ".") for a in allowed), f"{name(path)}: {full}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_stay_small(path):
    assert len(path.read_text().splitlines()) <= 320


def test_arrows_point_toward_model():
    """model imports nothing of the package; the analysis does not see who launches, and nobody sees the cli."""
    seen = {name(p): {i for i in imported(p) if i.startswith("pingpong.")} for p in MODULES}
    assert seen["model"] == set()
    assert {i for i in seen["stats"] if not i.startswith("pingpong.model")} == set()
    for module in ("stats", "store", "units", "placement", "measure.stopping"):
        assert not any(
            i.startswith(("pingpong.worker", "pingpong.controller", "pingpong.launch")) for i in seen[module]
        )
    assert [m for m, what in seen.items() if "pingpong.cli" in what and m != "__main__"] == []
    for module, what in seen.items():
        if module.startswith("measure"):
            assert not any(
                i.startswith(("pingpong.texts", "pingpong.controller", "pingpong.worker")) for i in what
            )


def test_judging_evidence_reads_nothing():
    """Only `sources` and `counters` touch the host; nothing there knows who launches or measures."""
    for path in (PACKAGE / "evidence").glob("*.py"):
        what = imported(path)
        ours = {full.split(".")[1] for full in what if full.startswith("pingpong.")}
        assert ours <= {"model", "units", "evidence", "sysfs"}
        if path.stem not in ("sources", "counters", "meter"):
            assert not what & {"os", "socket", "pathlib", "time", "pingpong.sysfs", "pingpong.evidence.sources"}, (
                path
            )


def test_the_instrument_knows_no_kernel_by_name():
    from pingpong.kernels import names

    for path in (PACKAGE / "measure").glob("*.py"):
        strings = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        assert not strings & set(names()), path


def test_workers_import_nothing_that_they_do_not_use():
    import subprocess
    import sys

    script = (
        "import sys, pingpong.worker, pingpong.measure.schedule;"
        f"print(sorted({NOT_IN_WORKERS!r} & set(sys.modules)), 'rich' in sys.modules, 'click' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False False"
