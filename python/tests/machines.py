#!/usr/bin/env python3
"""Two machines with Ray that share nothing but the network: machines.py PROGRAM.

Each machine has a network namespace of its own, on a bridge, and a mount namespace in which it can
write to memory alone. What they reach together is an object storage, which is a third one. Workers,
commands and a whole machine are killed at random while twenty shards are packed. Then the store is, byte for
byte, the one that a single process has packed. Takes root, and bin/tools/versitygw.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cluster
import stores

ROOT = os.path.dirname(os.path.dirname(cluster.HERE))
SHARDS = 20
PHOTOGRAPHS = 4000
KILLS = int(os.environ.get("KILLS", "20"))
KEYS = {"AWS_ACCESS_KEY_ID": "pipefs-test", "AWS_SECRET_ACCESS_KEY": "not+a/secret=of+anybody", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://10.77.0.1:7070", "AWS_EC2_METADATA_DISABLED": "true"}
# What a machine is given: read, and never written.
IMAGE = "/opt/pipefs-test"


def sh(*command, **kwargs):
    subprocess.run(command, check=True, **kwargs)


class Machine:
    """A network of its own, and files of its own: the root is read-only, and what programs write is in memory."""

    def __init__(self, number, work):
        self.name, self.ip = f"m{number}", f"10.77.0.{10 + number}"
        self.log = open(f"{work}/{self.name}.log", "wb")
        sh("ip", "netns", "add", self.name)
        sh("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        sh("ip", "link", "set", f"v{number}", "master", "br0", "up")
        for command in ["link set lo up", f"addr add {self.ip}/24 dev eth0", "link set eth0 up"]:
            sh("ip", "-n", self.name, *command.split())
        private = " && ".join(f"mount -t tmpfs -o mode=1777 {self.name} {at}" for at in ["/tmp", "/root", "/dev/shm", "/run"])
        # The machine lasts as long as this process.
        self.init = subprocess.Popen(
            ["ip", "netns", "exec", self.name, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
             "sh", "-ec", f"hostname {self.name}; {private}; mount -o remount,bind,ro /; touch /tmp/up; exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.pid = None
        cluster.within(30, f"{self.name} is up", self._up)

    def _up(self):
        with open(f"/proc/{self.init.pid}/task/{self.init.pid}/children") as f:
            children = f.read().split()
        if not children:
            return False
        self.pid = children[0]
        return os.path.exists(f"/proc/{self.pid}/root/tmp/up")

    def command(self, *command):
        inside = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": f"{IMAGE}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": f"{IMAGE}/python",
                  "PYTHONDONTWRITEBYTECODE": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1", **KEYS}
        # What a machine does not say of its memory would be that of the whole one.
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--uts", "--pid", "env", "-i", *(f"{k}={v}" for k, v in inside.items()), *command]

    def start(self, *command, **kwargs):
        return subprocess.Popen(self.command(*command), stdin=subprocess.DEVNULL, cwd="/", **{"stdout": self.log, "stderr": self.log, **kwargs})

    def run(self, *command):
        done = subprocess.run(self.command(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", timeout=600)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {' '.join(command)}\n{done.stdout}\nended with code {done.returncode}")
        return done.stdout.strip()

    def processes(self, pattern):
        """The processes of the machine whose command line matches, by the ids that they have here."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as f:
                if re.search(pattern, f.read().replace("\0", " ")) and os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink(f"/proc/{self.pid}/ns/mnt"):
                    found.append(int(pid))
        return found

    def ray(self, *args):
        self.run(f"{IMAGE}/bin/ray", "start", f"--node-ip-address={self.ip}", "--num-cpus=2", "--object-store-memory=100000000",
                 "--disable-usage-stats", *args)

    def raylet(self):
        return self.processes("/raylet/raylet ")


def image(program):
    """Lays out what machines are given, at a place that they do not hide."""
    os.makedirs(IMAGE, exist_ok=True)
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "image", IMAGE)
    for name in ["bin", "python", "ray"]:
        os.mkdir(f"{IMAGE}/{name}")
    shutil.copy(program, f"{IMAGE}/bin/pipefs")
    shutil.copytree(f"{ROOT}/python/pipefs", f"{IMAGE}/python/pipefs")
    sh("mount", "--bind", sys.prefix, f"{IMAGE}/ray")
    # The first line of a script of a venv names its interpreter.
    with open(f"{IMAGE}/bin/ray", "w") as f:
        f.write(f"#!/bin/sh\nexec {IMAGE}/ray/bin/python -m ray.scripts.scripts \"$@\"\n")
    os.chmod(f"{IMAGE}/bin/ray", 0o755)


def kill(machines, rng, kills, ended):
    """Kills at random: commands, workers, and once in a while a machine's Ray, which starts again."""
    while kills[0] < KILLS and not ended.is_set():
        ended.wait(rng.uniform(0.2, 0.8))
        machine = rng.choice(machines)
        what = rng.choice(["/pipefs pack --plan=", "^ray::pipefs pack "])
        for pid in machine.processes(what)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                kills[0] += 1
        if kills[0] >= KILLS // 2 and not kills[1]:
            kills[1] = 1
            first, lost = machines
            for pid in lost.raylet():
                os.kill(pid, signal.SIGKILL)
            cluster.within(60, "the raylet is gone", lambda: not lost.raylet())
            lost.run(f"{IMAGE}/bin/ray", "stop", "--force")
            lost.ray(f"--address={first.ip}:6379")


def test(program, work):
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print(f"  SEED={seed}", flush=True)
    rng = random.Random(seed)
    image(program)
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "br0", "type", "bridge")
    sh("ip", "addr", "add", "10.77.0.1/24", "dev", "br0")
    sh("ip", "link", "set", "br0", "up")
    machines = [Machine(1, work), Machine(2, work)]
    a, b = machines

    bucket = f"{work}/s3/bucket"
    os.makedirs(bucket)
    with open(f"{work}/s3.log", "wb") as log:
        subprocess.Popen([f"{ROOT}/bin/tools/versitygw", "--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"], "--region", "us-east-1",
                          "--port", "10.77.0.1:7070", "--keep-alive", "--quiet", "posix", f"{work}/s3"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    cluster.within(60, "versitygw answers", lambda: subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/10.77.0.1/7070"], stderr=subprocess.DEVNULL, check=False).returncode == 0)

    # They share no file: what one writes the other one does not see, and neither sees the tests.
    a.run("sh", "-c", "echo 1 >/tmp/mine")
    for machine, path in [(b, "/tmp/mine"), (a, cluster.HERE), (b, work)]:
        machine.run("sh", "-c", f"! test -e {path}")
    a.run("sh", "-c", "! touch /var/shared /opt/shared /home/shared 2>/dev/null")

    a.ray("--head", "--port=6379", "--include-dashboard=false")
    b.ray(f"--address={a.ip}:6379")

    # A dataset in the bucket, by way of the server.
    sh("/usr/bin/python3", "-c", PICTURES, f"{work}/dataset", str(PHOTOGRAPHS))
    put(f"{work}/dataset", f"{KEYS['AWS_ENDPOINT_URL']}/bucket/dataset")
    plans = {}
    for store in ["alone", "ray"]:
        plans[store] = last_word(a.run("pipefs", "plan", f"--shards={SHARDS}", "s3://bucket/dataset", f"s3://bucket/{store}"))
    a.run("pipefs", "pack", f"--plan={plans['alone']}", f"--shard=0..{SHARDS - 1}")
    a.run("pipefs", "commit", plans["alone"])

    # Broken off, and begun again.
    packing = [f"{IMAGE}/ray/bin/python", "-m", "pipefs.ray", plans["ray"], "--num-cpus=1"]
    environment = ["env", "RAY_ADDRESS=" + a.ip + ":6379"]
    markers = f"{bucket}/ray/plans/{os.path.basename(plans['ray']).partition('.')[0]}/shards"
    with a.start(*environment, *packing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        cluster.within(120, "a shard is packed", lambda: os.path.isdir(markers) and os.listdir(markers))
        for pid in a.processes("^[^ ]*python -m pipefs.ray "):
            os.kill(pid, signal.SIGINT)
        told = run.communicate(timeout=90)[0]
    assert run.returncode == 8 and "the same command goes on there" in told, (run.returncode, told)
    for machine in machines:
        cluster.within(30, "no command is left", lambda m=machine: not m.processes("pipefs pack --plan"))
    before = len(os.listdir(markers))
    assert 0 < before < SHARDS, before

    kills, ended = [0, 0], threading.Event()
    killer = threading.Thread(target=kill, args=(machines, rng, kills, ended))
    with a.start(*environment, *packing, "--retries=40", "--commit", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        killer.start()
        told = run.communicate(timeout=600)[0]
        ended.set()
        killer.join()
    assert run.returncode == 0, told
    same = stores.same(f"{bucket}/alone", f"{bucket}/ray")
    assert len(same) > 3 * SHARDS and kills[0] >= KILLS // 2 and kills[1] == 1, (len(same), kills)
    machine_names = set(re.findall(r" on (m\d)", told))
    print(f"  {before} of {SHARDS} shards were packed when it was broken off; then {kills[0]} kills and {kills[1]} lost machines; "
          f"the {len(same)} objects of its store are those of one process; failures were seen on {' and '.join(sorted(machine_names)) or 'no machine'}")
    for machine in machines:
        machine.run(f"{IMAGE}/bin/ray", "stop", "--force")


PICTURES = """
import os, random, sys
from PIL import Image
random.seed(1)
known = []
for i in range(int(sys.argv[2])):
    at = f"{sys.argv[1]}/{'abcd'[i % 4]}"
    os.makedirs(at, exist_ok=True)
    path = f"{at}/{i // 4:04}.jpg"
    if i < 200:
        small = Image.frombytes("RGB", (24, 18), random.randbytes(24 * 18 * 3))
        small.resize((480, 360), Image.BICUBIC).save(path, quality=90)
        with open(path, "rb") as f:
            known.append(f.read())
    else:
        with open(path, "wb") as f:
            f.write(known[i % 200])
"""


def put(directory, url):
    """Puts files into the bucket by one curl."""
    with tempfile.NamedTemporaryFile("w", suffix=".curl") as config:
        for at, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(at, name)
                config.write(f'upload-file = "{path}"\nurl = "{url}/{os.path.relpath(path, directory)}"\n')
        config.flush()
        sh("curl", "--silent", "--show-error", "--fail", "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEYS['AWS_ACCESS_KEY_ID']}:{KEYS['AWS_SECRET_ACCESS_KEY']}",
           "--config", config.name, stdout=subprocess.DEVNULL)


def last_word(told):
    """The address that `pipefs plan` prints."""
    found = re.findall(r"s3://\S+\.plan", told)
    assert found, told
    return found[-1]


def main():
    program = os.path.abspath(sys.argv[1])
    if os.environ.get("_IN_NAMESPACE") != "machines":
        # All that is made here, networks, mounts and processes, goes with this command.
        sys.stdout.flush()
        done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                               sys.executable, os.path.abspath(__file__), program], env={**os.environ, "_IN_NAMESPACE": "machines"}, check=False)
        sys.exit(done.returncode)
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    os.mkdir("/run/netns")
    with tempfile.TemporaryDirectory(prefix="pfmachines-", dir="/tmp") as work:
        try:
            test(program, work)
        except BaseException:
            for name in sorted(os.listdir(work)):
                if name.endswith(".log"):
                    with open(f"{work}/{name}", errors="replace") as f:
                        print(f"--- {name}\n{f.read()[-3000:]}")
            raise


if __name__ == "__main__":
    main()
