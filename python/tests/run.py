#!/usr/bin/env python3
"""Tests a wheel as an ordinary user without Go: run.py WHEEL [TEST…]. `make test-wheel` runs it.

As root it runs itself again as a user without rights, in a mount namespace in which that user
may open /dev/fuse. Pythons below root's own directories are tested as root.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = "/usr/bin/python3"  # has PyTorch: package python3-torchvision
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
USER = 64990  # nobody else has it


def run(command, timeout=600, **kwargs):
    """Runs a command and returns what it prints; all of it, where it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\nended with code {done.returncode}")
    return done.stdout.strip()


class Place:
    """The directories of a run, and its environment."""

    def __init__(self, work):
        self.work, self.dataset, self.run = work, f"{work}/ds", f"{work}/run"
        self.wheel = f"{work}/{[n for n in os.listdir(work) if n.endswith('.whl')][0]}"
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": f"{work}/home", "XDG_RUNTIME_DIR": self.run,
                    "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        for name in ["PIP_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY"]:
            if name in os.environ:
                self.env[name] = os.environ[name]

    def python(self, interpreter, script, *args, **kwargs):
        return run([interpreter, os.path.join(HERE, script), *args], env=self.env, cwd=self.work, **kwargs)

    def venv(self, interpreter, name, *packages, system=False):
        """A fresh venv with the wheel; packages come from PyPI."""
        at = f"{self.work}/{name}"
        run([interpreter, "-m", "venv", *(["--system-site-packages"] if system else []), at], env=self.env)
        run([f"{at}/bin/pip", "install", "-q", "--no-index", "--no-deps", self.wheel], env=self.env)
        if packages:
            run([f"{at}/bin/pip", "install", "-q", *packages], env=self.env)
        return f"{at}/bin/python"

    def nothing(self):
        """Waits until no mount, process, directory or socket is left."""
        for _ in range(600):
            with open("/proc/mounts") as f:
                left = [line.split()[1] for line in f if line.split()[2] == "fuse.pipefs" and line.split()[1].startswith(self.work)]
            with contextlib.suppress(FileNotFoundError):
                left += [f"{self.run}/pipefs/{name}" for name in os.listdir(f"{self.run}/pipefs")]
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as f:
                    line = f.read().replace("\0", " ")
                    if line.startswith("pipefs ") and self.work in line or "holder.py" in line and self.work in line:
                        left.append(f"process {pid}: {line}")
            if not left:
                return
            time.sleep(0.1)
        sys.exit("left behind: " + ", ".join(left))


def test_pythons(p):
    """The wheel installs into fresh venvs of every Python, and works there."""
    tested, missing = [], []
    for version in VERSIONS:
        interpreter = find_python(version)
        if interpreter is None:
            missing.append(version)
            continue
        python = p.venv(interpreter, f"venv{version}")
        print("  " + p.python(python, "smoke.py", p.dataset), flush=True)
        scripts = os.path.dirname(python)
        told = {run([*c, "version"], env=p.env) for c in [[f"{scripts}/pipefs"], [python, "-m", "pipefs"]]}
        plain = [re.sub(r"dev|[^0-9a-z]", "", v) for v in (*(t.split()[1] for t in told), os.path.basename(p.wheel).split("-")[1])]
        assert len(told) == 1 and plain[1] in plain[0], plain  # they are of one version
        tested.append(version)
        p.nothing()
    print(f"  tested: {', '.join(tested)}; not tested, because not found: {', '.join(missing) or 'none'}")
    assert tested, "there is no Python"


def find_python(version):
    """A Python of that version: in PATH, or of pyenv."""
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
    places = [shutil.which(f"python{version}")]
    for root in filter(None, roots):
        with contextlib.suppress(OSError):
            places += [f"{root}/versions/{v}/bin/python3" for v in sorted(os.listdir(f"{root}/versions")) if v.startswith(version + ".")]
    for python in filter(None, places):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run([python, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"],
                                  capture_output=True, text=True, timeout=60)
            if told.stdout.strip() == version:
                return python
    return None


def user_venv(p):
    at = f"{p.work}/venv"
    if not os.path.exists(at):
        p.venv(SYSTEM, "venv", system=True)
    return f"{at}/bin/python"


def test_train(p):
    """An epoch of ImageFolder."""
    print("  " + p.python(user_venv(p), "train.py", p.dataset))
    p.nothing()


def test_torchrun(p):
    """Four ranks share one daemon."""
    # PyTorch 1.13 on Python 3.11 fails without --redirects and --tee: there the flag 0 is none.
    told = run([user_venv(p), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4", "--redirects", "1", "--tee", "1",
                "--log_dir", f"{p.work}/ranks", f"{HERE}/rank.py", p.dataset], env=p.env, cwd=p.work)
    assert "4 ranks read 40 of 40 pictures by 1 daemon" in told, told
    print("  " + told.splitlines()[-1])
    p.nothing()


def test_notebook(p):
    """A notebook, run by nbclient: cells are run twice, and the kernel ends without a word."""
    python = user_venv(p)
    run([os.path.dirname(python) + "/pip", "install", "-q", "nbclient==0.10.2", "ipykernel==6.30.1"], env=p.env)
    with open(f"{HERE}/train.py") as f:
        train = f.read().replace("sys.argv[1]", repr(p.dataset))
    cells = [f"import pipefs\nm = pipefs.mount({p.dataset!r}, fidelity=4)\nm",
             f"first, m = m, pipefs.mount({p.dataset!r}, fidelity=4)\nassert m.stats()['pid'] == first.stats()['pid']\nm.fidelity(5)",
             "import os\nsorted(os.listdir(m.path('current')))", "m.path('scan5-rezise256')", train]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
            "cells": [{"cell_type": "code", "id": f"c{i}", "source": c, "metadata": {"tags": ["raises-exception"] if "rezise" in c else []},
                       "execution_count": None, "outputs": []} for i, c in enumerate(cells)]}
    with open(f"{p.work}/book.ipynb", "w") as f:
        json.dump(book, f)
    run([os.path.dirname(python) + "/jupyter-execute", "--inplace", f"{p.work}/book.ipynb"], env=p.env, cwd=p.work)
    with open(f"{p.work}/book.ipynb") as f:
        told = json.dumps([c["outputs"] for c in json.load(f)["cells"]])
    for want in ["<pipefs.Mount ", "'scan5'", "['a', 'b']", "unknown step", "trained on 40 pictures of 2 classes"]:
        assert want in told, (want, told)
    print("  five cells")
    p.nothing()


def test_docs(p):
    """The examples of docs/python.md run, and print what stands there."""
    with open(f"{p.work}/python.md") as f:
        blocks = re.findall(r"^```(python)?\n(.*?)^```$", f.read(), re.M | re.S)
    with open(f"{p.work}/examples.py", "w") as f:
        f.write("\n".join(code for python, code in blocks if python))
    told = p.python(user_venv(p), f"{p.work}/examples.py")
    assert told and told in (text.strip() for python, text in blocks if not python), told
    print(f"  {sum(bool(python) for python, _ in blocks)} examples")
    p.nothing()


def test_chaos(p):
    """200 mounts, unmounts and kills in random order leave nothing behind."""
    print("  " + p.python(user_venv(p), "chaos.py", p.dataset, "200", *filter(None, [os.environ.get("SEED")])).replace("\n", "\n  "))
    p.nothing()


def test_types(p):
    """mypy --strict finds nothing, in the oldest Python's words and in the newest's.

    Not in autotune: what it says of PyTorch fits some versions of PyTorch and not others.
    """
    python = p.venv(SYSTEM, "venv-mypy", "mypy==1.18.2", "numpy==1.26.4")  # whose types the oldest Python can read
    package = run([python, "-c", "import pipefs; print(pipefs.__path__[0])"], env=p.env)
    modules = sorted("pipefs." + n[:-3] for n in os.listdir(package) if n.endswith(".py") and n != "autotune.py")
    for version in [VERSIONS[0], VERSIONS[-1]]:
        print(f"  {version}: " + run([python, "-m", "mypy", "--strict", "--python-version", version,
                                        *(w for m in modules for w in ["-m", m.replace(".__init__", "")])], env=p.env, cwd=p.work))
    with open(f"{p.work}/use.py", "w") as f:
        f.write("import pipefs\nwith pipefs.mount('ds', cache=1 << 30, masks=['a', 'b']) as m:\n    s: str = m.path('bmp') + m.fidelity()\n"
                "reveal_type(m.stats())\n")
    told = run([python, "-m", "mypy", "--strict", "use.py"], env=p.env, cwd=p.work)
    assert "dict[builtins.str, Any]" in told, told


TESTS = {"train": test_train, "torchrun": test_torchrun, "notebook": test_notebook, "docs": test_docs, "chaos": test_chaos,
         "types": test_types, "pythons": test_pythons}
AS_ROOT = ["pythons"]  # what pyenv installs for root is root's


def prepare(work, wheel):
    """The directories of a run, and a dataset of 40 photographs in two classes."""
    os.chmod(work, 0o755)
    for name in ["home", "run"]:
        os.mkdir(f"{work}/{name}", 0o700)
    shutil.copy(wheel, work)
    shutil.copy(f"{HERE}/../../docs/python.md", work)
    os.symlink("ds", f"{work}/photos")
    run([SYSTEM, "-c", f"""
import os
from PIL import Image
for i in range(40):
    at = f"{work}/ds/{{'ab'[i % 2]}}"
    os.makedirs(at, exist_ok=True)
    Image.radial_gradient("L").resize((120, 90)).rotate(9 * i).convert("RGB").save(f"{{at}}/{{i // 2}}.jpg")
"""])


def perform(names, work):
    """Runs tests as whoever this is."""
    p = Place(work)
    for name in names:
        started = time.monotonic()
        print(f"{name}: {TESTS[name].__doc__.splitlines()[0]}", flush=True)
        TESTS[name](p)
        print(f"  passed in {time.monotonic() - started:.0f} s", flush=True)


def inside(wheel, names):
    """Runs the tests in this mount namespace: some as an ordinary user, if this is root."""
    with tempfile.TemporaryDirectory(prefix="pfwheel-", dir="/tmp") as work:
        prepare(work, wheel)
        if os.geteuid() != 0:
            perform(names, work)
            return
        run(["mknod", "-m", "666", f"{work}/fuse", "c", "10", "229"])
        shutil.copy("/etc/passwd", f"{work}/passwd")
        with open(f"{work}/passwd", "a") as f:
            f.write(f"trainer:x:{USER}:{USER}::{work}/home:/bin/sh\n")  # fusermount3 asks for the name
        over = {"/dev/fuse": f"{work}/fuse", "/etc/passwd": f"{work}/passwd"}
        for at, what in over.items():
            run(["mount", "--bind", what, at])
        connections = "/sys/fs/fuse/connections"
        if not os.path.ismount(connections):  # pipefs mount would note that, and the page of docs does not
            run(["mount", "-t", "fusectl", "none", connections])
        try:
            perform([n for n in names if n in AS_ROOT], work)
            as_user = [n for n in names if n not in AS_ROOT]
            if as_user:
                for name in ["home", "run"]:
                    shutil.rmtree(f"{work}/{name}")
                    os.mkdir(f"{work}/{name}", 0o700)
                    os.chown(f"{work}/{name}", USER, USER)
                os.chown(work, USER, USER)
                shutil.copytree(HERE, f"{work}/tests", ignore=shutil.ignore_patterns("__pycache__"))
                user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
                if subprocess.run([*user, SYSTEM, f"{work}/tests/run.py", "--in", work, *as_user]).returncode != 0:
                    sys.exit("failed")
        finally:
            for at in over:
                run(["umount", "-l", at])
    print("passed: " + ", ".join(names))


def main():
    if sys.argv[1] == "--in":
        perform(sys.argv[3:], sys.argv[2])
        return
    names = sys.argv[2:] or list(TESTS)
    if os.geteuid() == 0 and os.environ.get("_IN_NAMESPACE") != "1":
        os.environ["_IN_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    inside(os.path.abspath(sys.argv[1]), names)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    main()
