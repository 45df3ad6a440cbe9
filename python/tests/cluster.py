#!/usr/bin/env python3
"""Tests pipefs.ray with Ray: cluster.py PROGRAM [TEST…]. `make test-cluster` runs it, as root.

The first tests start Ray on this machine, with a program in the place of pipefs that fails as
it is told. `machines` has two, each with its own network, files and processes (machines.py).
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHARDS = 20

# What stands in for pipefs: it writes down what is run, and does to a shard what the files of the
# directory say.
PROGRAM = """#!/bin/sh
here={work}
for a; do case $a in --shard=*) shard=${{a#--shard=}} ;; esac; done
case $1 in
commit)
  case $* in *--missing*)
    i=0; while [ $i -lt %d ]; do [ -e $here/marker-$i ] || echo $i; i=$((i + 1)); done ;;
  *) echo "committed, $*" ;;
  esac ;;
pack)
  echo "$shard $GOMAXPROCS $SECRET" >>$here/runs
  trap 'rm -f $here/running-$shard' EXIT; trap 'exit 8' TERM; : >$here/running-$shard
  ls $here | grep -c running- >>$here/at-once
  echo "packing $shard"
  [ ! -e $here/refuse ] || {{ echo "pipefs: the plan is of another version" >&2; exit 1; }}
  while [ -e $here/wait ] && [ $shard != 0 ]; do sleep 0.1; done
  if [ -e $here/break-$shard ]; then
    [ ! -e $here/once-$shard ] || rm $here/break-$shard
    echo "pipefs: put: connection refused" >&2
    exit 2
  fi
  : >$here/marker-$shard ;;
esac
""" % SHARDS


def within(seconds, what, condition):
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"did not come true: {what}")
        time.sleep(0.1)


class Local:
    """A directory with the program that stands in, and one Ray of this machine."""

    def __init__(self, work):
        self.work = work
        os.mkdir(f"{work}/home")
        with open(f"{work}/pipefs", "w") as f:
            f.write(PROGRAM.format(work=work))
        os.chmod(f"{work}/pipefs", 0o755)
        self.env = {**os.environ, "HOME": f"{work}/home", "PATH": f"{work}:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": os.path.dirname(HERE),
                    "PYTHONDONTWRITEBYTECODE": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": work, "SECRET": "s3cr3t"}
        self.env.pop("GOMAXPROCS", None)

    def start(self, *args):
        return subprocess.Popen([sys.executable, "-m", "pipefs.ray", "the-plan", "--num-cpus=0.5", *args], env=self.env, cwd=self.work,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, *args, code=0):
        with self.start(*args) as p:
            told = p.communicate(timeout=300)[0]
        assert p.returncode == code, (p.returncode, told)
        return told

    def make(self, *names):
        for name in names:
            open(f"{self.work}/{name}", "w").close()

    def clean(self):
        for name in os.listdir(self.work):
            if re.match("marker-|running-|runs|at-once|wait", name):
                os.remove(f"{self.work}/{name}")

    def names(self, pattern):
        return [n for n in os.listdir(self.work) if re.match(pattern, n)]

    def commands(self):
        return subprocess.run(["pgrep", "-af", f"{self.work}/pipefs pack"], stdout=subprocess.PIPE, text=True, check=False).stdout

    def runs(self):
        with open(f"{self.work}/runs") as f:
            return [line.split() for line in f]


def test_packs(p):
    """All shards, no more at once than Ray has places for, in few tasks; then the commit, and nothing the second time."""
    told = p.run("--commit", "--allow-failed=3", "--in-flight=3", "--env=SECRET")
    assert f"{SHARDS} shards are packed" in told and "committed, commit --allow-failed=3 -- the-plan" in told, told
    assert sorted(int(r[0]) for r in p.runs()) == list(range(SHARDS)) and {tuple(r[1:]) for r in p.runs()} == {("1", "s3cr3t")}, p.runs()
    with open(f"{p.work}/at-once") as f:
        assert max(map(int, f)) <= 3
    os.remove(f"{p.work}/marker-7")
    told = p.run()
    assert "1 shards are packed" in told or "1 shard is packed" in told, told
    assert p.runs()[SHARDS:] == [["7", "1", "s3cr3t"]], p.runs()


def test_fails(p):
    """A shard that fails is tried again; one that fails for good is named, with what its command said."""
    p.make("break-2", "once-2", "break-7", "break-8")
    told = p.run("--retries=1", code=2)
    assert "shard 2: code 2 on " in told and "tried again in 0.5 s: pipefs: put: connection refused" in told, told
    assert f"pipefs-ray: 2 of {SHARDS} shards failed: 7..8; the others stay" in told, told
    assert re.search("^shard 8, code 2 on .*, 2 times:\n    packing 8\n    pipefs: put: connection refused$", told, re.M), told
    assert len(p.names("marker-")) == SHARDS - 2
    os.remove(f"{p.work}/break-7")
    os.remove(f"{p.work}/break-8")
    p.run()
    assert len(p.names("marker-")) == SHARDS


def test_refused(p):
    """A command that is refused is run once, and where the first ones are, the others are not begun."""
    p.make("refuse")
    told = p.run("--in-flight=2", code=1)
    assert "pipefs: the plan is of another version" in told and "were not begun, because the first ones were refused" in told, told
    assert len(p.runs()) <= 4, p.runs()


def test_interrupted(p):
    """Ctrl-C, and SIGTERM, end all commands, and say where it stands."""
    for sent in [signal.SIGINT, signal.SIGTERM]:
        p.clean()
        p.make("wait")
        with p.start() as run:
            within(300, "shards are packed", lambda: len(p.names("running-")) >= 2 and p.names("marker-"))
            run.send_signal(sent)
            told = run.communicate(timeout=300)[0]
        assert run.returncode == 8 and f"interrupted: 1 of {SHARDS} shards are packed" in told and "Traceback" not in told, (run.returncode, told)
        within(60, "no command is left", lambda: not p.commands())
    os.remove(f"{p.work}/wait")
    p.run()
    assert len(p.names("marker-")) == SHARDS


def test_killed(p):
    """The command of a worker that is killed ends with it, and the shard is packed by another one."""
    p.make("wait")
    with p.start() as run:
        within(300, "shards are packed", lambda: len(p.names("running-")) >= 2)
        first = len(p.runs())
        workers = subprocess.run(["pgrep", "-f", "^ray::pipefs pack --shard"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        ours = [w for w in workers if environment(w).get("RAY_TMPDIR") == p.work]
        for w in ours:
            os.kill(int(w), signal.SIGKILL)
        within(300, "others have begun", lambda: len(p.runs()) >= first + len(ours))
        os.remove(f"{p.work}/wait")
        told = run.communicate(timeout=300)[0]
    assert run.returncode == 0 and ours and f"with {len(ours)} more tries" in told and "Ray lost its worker" in told, (ours, told)
    assert not p.commands(), p.commands()


def test_missing(p):
    """Without Ray, and without the program, the message says what to install."""
    env = {k: v for k, v in p.env.items() if k != "PATH"}
    told = subprocess.run(["/usr/bin/python3", "-m", "pipefs.ray", "the-plan"], env=env, cwd=p.work, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False).stderr
    assert "pip install 'pipefs[ray]'" in told and "Traceback" not in told, told


def environment(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ") as f:
        return dict(part.split("=", 1) for part in f.read().split("\0") if "=" in part)
    return {}


def test_machines(program):
    """Two machines that share no file; workers, commands and a machine are killed; the store is that of one process."""
    subprocess.run([sys.executable, f"{HERE}/machines.py", program], check=True)


LOCAL = {"packs": test_packs, "fails": test_fails, "refused": test_refused, "interrupted": test_interrupted, "killed": test_killed,
         "missing": test_missing}


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background, and programs inherit that
    program, *names = sys.argv[1:]
    for name in names or [*LOCAL, "machines"]:
        test = LOCAL.get(name, test_machines)
        print(f"{name}: {test.__doc__.splitlines()[0]}", flush=True)
        started = time.monotonic()
        if name in LOCAL:
            with tempfile.TemporaryDirectory(prefix="pfray-", dir="/tmp") as work:
                test(Local(work))
        else:
            test(os.path.abspath(program))
        print(f"  passed in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
