#!/usr/bin/env python3
"""Packing by Ray beside packing by one process: run.py --pictures DIR. `make bench-cluster` runs it.

Both pack the same plan into the same object storage on this machine, in turn: A B A B. What starts Ray and
its workers is not counted. Then commands and workers are killed at random while Ray packs once more. All
stores have to be the same, byte for byte.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [f"{ROOT}/python", f"{ROOT}/python/tests"]
PIPEFS = f"{ROOT}/bin/pipefs"


def copies(pictures, n, to):
    """The photographs n times, under other names, in a directory each."""
    names = sorted(name for name in os.listdir(pictures) if name.lower().endswith((".jpg", ".jpeg")))
    if not names:
        sys.exit(f"{pictures} has no .jpg or .JPEG files; say which directory has photographs: make bench-cluster PICTURES=DIR")
    for k in range(n):
        os.makedirs(f"{to}/{k:03}")
        for name in names:
            shutil.copyfile(f"{pictures}/{name}", f"{to}/{k:03}/{name}")
    return n * len(names)


def serve(work):
    """versitygw with one bucket. The environment says how to reach it."""
    os.makedirs(f"{work}/s3/bucket")
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench-secret", AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
    for _ in range(20):
        port = random.randrange(20000, 32000)
        server = subprocess.Popen([f"{ROOT}/bin/tools/versitygw", "--access", "bench", "--secret", "bench-secret", "--region", "us-east-1",
                                   "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", "posix", f"{work}/s3"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            time.sleep(0.1)
            answered = subprocess.run(["curl", "--silent", "--output", "/dev/null", f"http://127.0.0.1:{port}/"], check=False).returncode == 0
            if answered or server.poll() is not None:
                break
        if server.poll() is None:
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            return server
    sys.exit("versitygw does not start")


def pipefs(*args):
    done = subprocess.run([PIPEFS, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"pipefs {' '.join(args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def plan(dataset, store, shards):
    return json.loads(pipefs("plan", "--json", f"--shards={shards}", dataset, f"s3://bucket/{store}"))["plan"]


def by_one_process(url, shards):
    began = time.monotonic()
    pipefs("pack", f"--plan={url}", f"--shard=0..{shards - 1}")
    return time.monotonic() - began


class Killer(threading.Thread):
    """Kills commands and workers of a run at random."""

    def __init__(self, work, kills, seed):
        super().__init__(daemon=True)
        self.work, self.kills, self.done, self.random, self.stop = work, kills, 0, random.Random(seed), threading.Event()

    def run(self):
        while self.done < self.kills and not self.stop.wait(self.random.uniform(0.3, 2)):
            what = self.random.choice(["/pipefs pack --plan=", "^ray::pipefs pack "])
            found = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if self.matches(pid, what)]
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(self.random.choice(found)), signal.SIGKILL)
                    self.done += 1

    def matches(self, pid, what):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/environ") as environ:
            return re.search(what, line.read().replace("\0", " ")) and f"RAY_TMPDIR={self.work}\0" in environ.read()
        return False


def measure(args, work):
    import ray

    import pipefs.ray as module
    from stores import same

    os.environ.update(HOME=f"{work}/home", XDG_CACHE_HOME=f"{work}/cache", RAY_TMPDIR=work, RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled",
                      PATH=f"{ROOT}/bin:" + os.environ["PATH"], PYTHONPATH=f"{ROOT}/python", PYTHONDONTWRITEBYTECODE="1")
    os.mkdir(f"{work}/home")
    dataset, bucket = f"{work}/dataset", f"{work}/s3/bucket"
    photographs = copies(args.pictures, args.copies, dataset)
    cpus = len(os.sched_getaffinity(0))
    share = cpus / args.workers
    print(f"{photographs:,} photographs, {args.shards} shards, {args.workers} workers of Ray {ray.__version__} on {cpus} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    ray.init(num_cpus=cpus, log_to_driver=False)
    # Workers are processes; they are started before the clock is.
    ray.get([ray.remote(num_cpus=share)(lambda: time.sleep(15)).remote() for _ in range(args.workers)])
    ratios = []
    for n in range(args.rounds):
        alone, ours = plan(dataset, f"alone{n}", args.shards), plan(dataset, f"ray{n}", args.shards)
        a = by_one_process(alone, args.shards)
        b = module.pack(ours, num_cpus=share, progress=False).seconds
        ratios.append(a / b)
        print(f"round {n + 1}: one process {a:.1f} s, {photographs / a:.0f}/s; Ray {b:.1f} s, {photographs / b:.0f}/s; ratio {a / b:.2f}; load {os.getloadavg()[0]:.1f}", flush=True)
        same(f"{bucket}/alone{n}", f"{bucket}/ray{n}")
        if n:
            for store in ["alone", "ray"]:
                shutil.rmtree(f"{bucket}/{store}{n}")
    print(f"Ray packs at {statistics.median(ratios):.2f} of the rate of one process (median of {args.rounds} rounds, {min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    killer = Killer(work, args.kills, args.seed)
    killer.start()
    url = plan(dataset, "killed", args.shards)
    packed = module.pack(url, num_cpus=share, progress=False, retries=args.kills, commit=True)
    killer.stop.set()
    killer.join()
    pipefs("commit", plan_of(bucket, "alone0"))
    names = same(f"{bucket}/alone0", f"{bucket}/killed")
    print(f"{killer.done} kills (--seed {args.seed}), {packed.again} more tries, {packed.seconds:.1f} s: the {len(names)} objects of the store are those of one process")
    if killer.done < args.kills:
        print(f"(it was done before {args.kills} kills)")
    ray.shutdown()


def plan_of(bucket, store):
    name = [n for n in os.listdir(f"{bucket}/{store}/plans") if n.endswith(".plan")][0]
    return f"s3://bucket/{store}/plans/{name}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--pictures", required=True, help="a directory of photographs")
    p.add_argument("--copies", type=int, default=25, help="each photograph so many times (default 25)")
    p.add_argument("--shards", type=int, default=40)
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="pfcluster-", dir="/tmp") as work:
        server = serve(work)
        try:
            measure(args, work)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
