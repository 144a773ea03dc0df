"""The lab comes up and goes down: nothing is left of it, and nothing is hit that is not of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab_processes import apart

from .conftest import HOSTS, LAB, children
from .test_lab import run, wait_until

pytestmark = pytest.mark.lab

# `lab up` with nodeA's process stopped before it leaves the machine's network.
STOPPED = """
import os, runpy, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import lab_host
separate = lab_host.separate
def stop(name):
    if name == "nodeA": os.kill(os.getpid(), signal.SIGSTOP)
    separate(name)
lab_host.separate = stop
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# A process that ends, and another that gets its id.
REUSED = """
import os, signal, subprocess, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import lab_processes
first = subprocess.Popen(["sleep", "1000"])
with lab_processes.handle(first.pid) as process:
    lab_processes.send(process, signal.SIGKILL)
    print(first.wait())
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(first.pid - 1))
    second = subprocess.Popen(["sleep", "1000"])
    print(second.pid == first.pid, lab_processes.namespace(process, "net"))
    for touch, what in (lab_processes.send, signal.SIGKILL), (lab_processes.read, "comm"):
        try: touch(process, what)
        except ProcessLookupError: print("has ended")
print(second.poll())
"""
# Where `down` could reach what is not of the lab: in a process namespace, so that nothing else can be hit.
BYSTANDER = """
    sleep 1000 & bystander=$!
    lives() { kill -0 $bystander && echo the bystander lives; }
    sleep 0.3
"""
STOP = """
    $PYTHON -c "$STOPPED" $PROGRAM up 2>/dev/null & up=$!
    until stopped=$(grep -l '^State:.*T' /proc/[0-9]*/status); do kill -0 $up || exit; sleep 0.05; done
    stopped=${stopped#/proc/} stopped=${stopped%/status}
"""


def in_namespace(script):
    """A shell as root of a user namespace, with $LAB and empty folders that no other program writes into."""
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--mount-proc", "--kill-child"]
    empty = "for folder in /dev/shm /run /var/tmp; do mount -t tmpfs tmpfs $folder; done\n"
    env = os.environ | {"LAB": " ".join(LAB), "PYTHON": LAB[0], "PROGRAM": LAB[1]}
    env |= {"STOPPED": STOPPED, "REUSED": REUSED}
    command = [*unshare, "sh", "-c", empty + script]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_down_leaves_nothing_and_up_works_again(lab):
    done = in_namespace("""
        before=$(cat /proc/$$/mountinfo; ls -A /var/tmp /dev/shm /run)
        $LAB up 2>/dev/null && $LAB status >/dev/null && $LAB exec nodeB hostname && $LAB up 2>&1
        $LAB exec nodeB sh -c 'setsid sleep 1000 & sleep 1000' & sleep 0.5
        $LAB down && echo gone; wait
        [ "$before" = "$(cat /proc/$$/mountinfo; ls -A /var/tmp /dev/shm /run)" ] && echo as before
        readlink /proc/[0-9]*/ns/net | sort -u | wc -l
        $LAB down 2>&1
        $LAB up 2>/dev/null && $LAB exec nodeA hostname && $LAB down && echo gone again
    """)
    assert done.stdout.splitlines() == [
        "nodeB",
        "lab: the lab is up already; lab down ends it",
        "gone",
        "as before",
        "1",  # network namespace that anything is in
        "lab: the lab is not up",
        "nodeA",
        "gone again",
    ], done.stderr


def test_a_lab_that_is_half_up_goes_down(lab):
    done = in_namespace("""
        $LAB up 2>/dev/null
        for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = lab:nodeA ] && kill -9 ${p#/proc/}; done
        $LAB exec nodeB true 2>&1
        $LAB down && readlink /proc/[0-9]*/ns/net | sort -u | wc -l
    """)
    said, networks = done.stdout.splitlines()
    assert said.startswith("lab: the lab is not up completely: end it with lab down"), done.stderr
    assert networks == "1"


def test_where_process_1_may_not_be_looked_at(lab):
    done = in_namespace(f"""{BYSTANDER}
        export LAB; setpriv --bounding-set -sys_ptrace --inh-caps -all sh -c '
            readlink /proc/1/ns/net || echo unknown
            $LAB up 2>/dev/null && $LAB exec nodeA $LAB exec nodeB hostname
            $LAB exec nodeA $LAB down 2>&1
            $LAB down && echo gone; $LAB status 2>&1'
        lives
    """)
    refused = "lab: a host cannot take the lab down: leave it first; a lab shell ends with its command"
    off = "lab: the lab is not up; bring it up with lab up (as root) or lab shell"
    assert done.stdout.splitlines() == ["unknown", "nodeB", refused, "gone", off, "the bystander lives"], (
        done.stderr
    )


@pytest.mark.parametrize("name", ["lab:nodeA", "nodeA"])
def test_a_name_alone_makes_no_host(lab, name):
    done = in_namespace(f"""{BYSTANDER}
        sh -c 'echo {name} >/proc/$$/comm; while :; do sleep 0.1; done' & named=$!
        until grep -q {name} /proc/$named/comm; do sleep 0.05; done
        timeout 20 $LAB down 2>&1
        kill -0 $named && lives
    """)
    assert done.stdout.splitlines() == ["lab: the lab is not up", "the bystander lives"], done.stderr


def test_one_that_comes_up_is_left_alone_by_all_others(lab):
    done = in_namespace(f"""{BYSTANDER}{STOP}
        timeout 20 $LAB down 2>&1; timeout 20 $LAB up 2>&1
        kill -CONT $stopped; wait $up && $LAB exec nodeB hostname
        grep -h ^lab: /proc/[0-9]*/comm | sort
        $LAB down && readlink /proc/[0-9]*/ns/net | sort -u | wc -l
        lives
    """)
    busy = "lab: another lab up or lab down is at work; try again when it has ended"
    up = ["nodeB", "lab:nodeA", "lab:nodeB"]
    assert done.stdout.splitlines() == [busy, busy, *up, "1", "the bystander lives"], done.stderr


def test_a_host_that_was_left_in_the_network_of_the_machine_takes_nothing_along(lab):
    done = in_namespace(f"""{BYSTANDER}{STOP}
        kill -9 $up
        timeout 20 $LAB down 2>&1
        kill -CONT $stopped; lives
        timeout 10 sh -c "while kill -0 $stopped 2>/dev/null; do sleep 0.05; done" && echo it ended
    """)
    assert done.stdout.splitlines() == ["lab: the lab is not up", "the bystander lives", "it ended"], done.stderr


@pytest.mark.skipif(not Path("/proc/sys/kernel/ns_last_pid").exists(), reason="the next process id cannot be set")
def test_a_handle_is_not_of_who_gets_the_id_later(lab):
    done = in_namespace('$PYTHON -c "$REUSED" $PROGRAM')
    assert done.stdout.splitlines() == ["-9", "True None", "has ended", "has ended", "None"], done.stderr


def test_what_is_unknown_is_not_apart():
    assert apart([1, 2, 3, 4], [5, 6, 7, 8])
    assert not apart([1, 2, 3, 4], [1, 6, 7, 8])  # the same network
    assert not apart([1, 2, 3, 4], [5, 6, 7, 4])
    assert not apart([1, 2, 3, 4], [None, 6, 7, 8])
    assert not apart([None, 2, 3, 4], [5, 6, 7, 8])


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_does_not_take_itself_down(lab, host):
    job = lab.start("nodeB", ["sleep", "1000"])
    wait_until(lambda: lab.processes("nodeB"))
    done = lab.run(host, [*LAB, "down"])
    assert (done.returncode, done.stdout) == (255, "")
    assert (
        done.stderr == "lab: a host cannot take the lab down: leave it first; a lab shell ends with its command\n"
    )
    assert job.poll() is None


def test_up_keeps_nothing_open_that_it_inherits(lab):
    """Whoever reads from it gets to the end when `up` has ended."""
    done = in_namespace("$LAB up 7>&1 >/dev/null 2>&1 | timeout 20 cat && echo the end; $LAB down")
    assert done.stdout == "the end\n", done.stderr


def test_a_shell_that_is_killed_takes_everything_along(lab):
    script = f"{' '.join(LAB)} exec nodeB sh -c 'setsid sleep 1000 & echo up; exec sleep 1000'"
    outer = subprocess.Popen([*LAB, "shell", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert outer.stdout.readline() == "up\n"
    (first,) = children(outer.pid)
    namespace = Path(f"/proc/{first}/ns/user").readlink()
    outer.kill()
    outer.communicate(timeout=10)  # until nobody holds the pipe any more

    def left():
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "ns/user").readlink() == namespace:
                    return True
            except OSError:
                pass
        return False

    wait_until(lambda: not left())


def test_labs_do_not_see_each_other(lab):
    lab.start("nodeB", ["sleep", "1000"])
    code, said, _ = run("shell", *LAB, "exec", "nodeB", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert code == 0
    assert "sleep 1000" not in said


def test_what_is_missing_is_said(lab):
    script = "mount -t tmpfs none /usr/sbin; mount -t tmpfs none /sbin; PATH=/nowhere; exec $LAB up"
    done = in_namespace(script)
    assert (done.returncode, done.stderr) == (255, "lab: ip and tc cannot be found; install iproute2\n")


def test_up_needs_root(lab):
    nobody = ["unshare", "--user"]  # and no user mapped
    done = subprocess.run([*nobody, *LAB, "up"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (255, "lab: up needs root; lab shell does not\n")


@pytest.mark.parametrize("words", [[], ["sideways"], ["exec", "nodeA"], ["up", "now"]])
def test_wrong_use_shows_the_commands(words):
    code, said, error = run(*words)
    assert (code, said) == (2, "")
    assert "lab shell" in error


def test_without_the_rights_tests_are_skipped_or_fail_where_the_lab_is_required(lab):
    test = f"{Path(__file__).with_name('test_lab.py')}::test_names_are_known"
    nobody = ["unshare", "--user"]  # and no user mapped
    command = [*nobody, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    for required, said in ("", "2 skipped"), ("required", "2 errors"):
        env = os.environ | {"PINGPONG_LAB": required}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert said in done.stdout
        assert "lab: this system does not let you make a user namespace" in done.stdout
