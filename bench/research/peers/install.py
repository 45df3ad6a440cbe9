"""Installs peers, each into an environment of its own, so that one that cannot be
installed leaves the others alone and none changes what another one runs on.

The environments see one more, base: PyTorch, torchvision, Pillow and NumPy are the same
for all that use them. Requirements are complete and pinned, and installed without
dependencies."""
import hashlib
import os
import signal
import subprocess
import sys
import time

import common

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 900  # seconds, for a step


def install(name, peer, out, say):
    """The peer's interpreter, and what installing took: seconds and bytes."""
    base, took = environment("base", ["torchvision"], out, say)
    if not hasattr(peer, "IMPORTS"):
        return os.path.join(base, "bin", "python"), base, took if name == common.CONTROL else {}
    venv, took = environment(name, peer.IMPORTS, out, say, base)
    return os.path.join(venv, "bin", "python"), venv, took


def environment(name, imports, out, say, base=None):
    """A virtual environment of what requirements/NAME.txt pins, which sees base, too."""
    requirements = os.path.join(HERE, "requirements", name + ".txt")
    with open(requirements, "rb") as f:
        want = hashlib.sha256(f.read() + sys.version.encode()).hexdigest()
    venv = os.path.join(out, "venv", name)
    python, ready = os.path.join(venv, "bin", "python"), os.path.join(venv, "ready")
    try:
        with open(ready, encoding="ascii") as f:
            mark, seconds = f.read().split()
            if mark == want:
                return venv, {"seconds": float(seconds), "bytes": common.tree_bytes(venv)}
    except (OSError, ValueError):
        pass
    say(f"installing {name}")
    start = time.monotonic()
    os.makedirs(os.path.dirname(venv), exist_ok=True)
    log = venv + ".log"
    with open(log, "w", encoding="utf-8") as to:
        step([sys.executable, "-m", "venv", "--clear", venv], to, log)
        if base:
            with open(os.path.join(packages(venv), "base.pth"), "w", encoding="utf-8") as f:
                f.write(packages(base) + "\n")
        step([python, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--progress-bar", "off",
              "-r", requirements], to, log)
        step([python, "-c", "import " + ", ".join(imports)], to, log)
    seconds = time.monotonic() - start
    with open(ready, "w", encoding="ascii") as f:
        f.write(f"{want} {seconds:.1f}")
    return venv, {"seconds": seconds, "bytes": common.tree_bytes(venv)}


def packages(venv):
    return os.path.join(venv, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


def step(command, to, log):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True)
    try:
        code = process.wait(LIMIT)
    except BaseException as e:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(e, subprocess.TimeoutExpired):
            raise common.Failed(f"installing took longer than {LIMIT} s; see {log}") from e
        raise
    if code:
        with open(log, encoding="utf-8", errors="replace") as f:
            raise common.Failed(why(f.read()) + f"; see {log}")


def why(log):
    """The lines of pip's or Python's output that tell what went wrong."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith(("[notice]", "note:", "hint:"))]
    errors = [line for line in lines if "rror:" in line]
    return common.last_lines("\n".join(errors or lines), 2)
