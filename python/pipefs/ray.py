"""Packs the shards of a plan by Ray: on a laptop or on a cluster, by the same command.

    pipefs plan ~/imagenet s3://bucket/imagenet.store        # prints the address of the plan
    python -m pipefs.ray s3://bucket/imagenet.store/plans/PLAN.plan --commit

    import pipefs.ray

    pipefs.ray.pack("s3://bucket/imagenet.store/plans/PLAN.plan", num_cpus=2, commit=True)

Each shard is a task of Ray that runs `pipefs pack --plan PLAN --shard I`. A shard may be packed
twice or broken off, and the bytes of the store are the same: what a worker leaves unfinished
another one does again. Ray is found as ray.init() finds it: RAY_ADDRESS, a cluster of this
machine, or one that lasts as long as the command. Every machine of the cluster needs the wheel
of pipefs, and reaches store and dataset by the same names.

Ray is imported when it is used: pip install 'pipefs[ray]'.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import heapq
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ._mount import Option, _arguments
from ._program import Error, program

LINES = 20  # of a failed command that are shown
SHOWN = 5  # failed shards whose lines are shown
PAUSE = 60.0  # seconds at most before a shard is tried again
REFUSED = 1  # exit code: it would be refused again
STORAGE = ("endpoint", "region", "path_style", "anonymous")  # options of every command that opens a bucket


class Packed(NamedTuple):
    """What pack has done."""

    shards: int  # that were packed, or found to be packed already
    again: int  # tries beyond the first of each shard
    seconds: float  # without the start of Ray


class _End(NamedTuple):
    """How the command of a shard ended."""

    code: Optional[int]  # None: Ray lost it
    lines: List[str]  # the last ones that it wrote
    machine: str


def pack(plan: str, *, shards: Optional[Iterable[int]] = None, num_cpus: float = 1, memory: Optional[int] = None,
         resources: Optional[Dict[str, float]] = None, in_flight: int = 256, retries: int = 10, env: Sequence[str] = (),
         commit: bool = False, allow_failed: int = 0, progress: bool = True, **options: Option) -> Packed:
    """Packs the shards of a plan as tasks of Ray, and commits them if commit says so.

    plan is what `pipefs plan` prints. shards are all that have no marker yet, unless they are named.
    A task asks Ray for num_cpus processors, memory in bytes, and resources; it uses as many
    processors. Ray knows of in_flight tasks at once. A shard that fails is tried retries times
    again, after pauses that grow up to a minute; one whose command is refused (exit code 1) is not.
    env names variables of this process that tasks get, such as "AWS_PROFILE"; else they have those of
    their machine. Every other option of `pipefs pack --plan` is an argument with underscores:
    dataset="/data/imagenet".

    Raises Error, which names the shards that failed with the last lines of their commands. What was
    packed stays: the same call goes on there. KeyboardInterrupt ends all tasks.
    """
    ray = _ray()
    storage = {name: value for name, value in options.items() if name in STORAGE}
    if shards is None:
        shards = _missing(plan, storage)
    ours = not ray.is_initialized()
    run = _Run(list(shards), in_flight, retries, _Bar(progress), ours)
    command = ["pack", f"--plan={plan}", *_arguments(None, options)]
    variables = {name: os.environ[name] for name in env if name in os.environ}
    if run.waiting:
        with _session(ray) if ours else contextlib.nullcontext():
            task = ray.remote(num_cpus=num_cpus, memory=memory, resources=resources, max_retries=0, scheduling_strategy="SPREAD")(_pack_shard)
            cpus = max(1, int(num_cpus)) if num_cpus else None
            run.start(ray, lambda shard: task.options(name=f"pipefs pack --shard {shard}").remote([*command, f"--shard={shard}"], variables, cpus))
    if commit:
        _commit(plan, allow_failed, storage)
    return Packed(run.done, run.again, run.seconds)


def _ray() -> Any:
    """The module ray. It has types of its own kind, and need not be there."""
    try:
        return importlib.import_module("ray")
    except ImportError as e:
        raise Error(f"Ray cannot be imported ({e}); install it with: pip install 'pipefs[ray]'") from e


@contextlib.contextmanager
def _session(ray: Any) -> "Iterator[None]":
    """A session of Ray. SIGTERM interrupts it; Ray's own handler would end the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    ray.init(log_to_driver=False)
    if main:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        ray.shutdown()
        if main:
            signal.signal(signal.SIGTERM, before)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _missing(plan: str, storage: "Dict[str, Option]") -> "List[int]":
    """The shards of a plan that have no marker."""
    done = subprocess.run([program(), "commit", "--missing", *_arguments(None, storage), "--", plan], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"{plan} cannot be read: code {done.returncode}", done.returncode)
    return [int(line) for line in done.stdout.splitlines()]


def _commit(plan: str, allow_failed: int, storage: "Dict[str, Option]") -> None:
    arguments = _arguments(None, {"allow_failed": allow_failed or None, **storage})
    done = subprocess.run([program(), "commit", *arguments, "--", plan], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"pipefs commit ended with code {done.returncode}", done.returncode)
    sys.stderr.write(done.stderr)


def _pack_shard(arguments: "List[str]", variables: "Dict[str, str]", cpus: Optional[int]) -> "Tuple[int, List[str], str]":
    """Runs the command of a shard on a machine of the cluster: its exit code, its last lines, the machine.

    The command ends with this worker, however the worker ends: another one would do the work a
    second time beside it.
    """
    environment = {**os.environ, **variables}
    if cpus is not None:
        environment.setdefault("GOMAXPROCS", str(cpus))
    prctl, worker = ctypes.CDLL(None).prctl, os.getpid()

    def end_with_worker() -> None:
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != worker:
            os._exit(1)

    last: "Deque[str]" = collections.deque(maxlen=LINES)
    with subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment, preexec_fn=end_with_worker) as child:
        try:
            last.extend(_lines(child))
        except BaseException:  # Ray cancels by KeyboardInterrupt
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
    return child.returncode, list(last), socket.gethostname()


def _lines(child: "subprocess.Popen[bytes]") -> "Iterator[str]":
    """What a command writes. It looks up five times a second: an interrupt of Ray is seen only between steps of Python."""
    assert child.stdout is not None
    rest = b""
    while True:
        if not select.select([child.stdout], [], [], 0.2)[0]:
            continue
        read = os.read(child.stdout.fileno(), 1 << 16)
        *lines, rest = (rest + read).split(b"\n")
        for line in lines if read else [rest]:
            if line.strip():
                yield line.decode("utf-8", "replace")
        if not read:
            return
        rest = rest[-4096:]


class _Interrupts:
    """Ctrl-C, and SIGTERM in a session of our own, while a run waits for Ray.

    Python drops what a handler raises while a destructor runs, and objects of Ray have destructors. So
    the first signal is noted, and the run looks twice a second. A second one raises at once.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: "Dict[int, Any]" = {}

    def __enter__(self) -> "_Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before in (signal.default_int_handler, _interrupt):  # not of a caller who does something else
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, *_: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def check(self) -> None:
        if self._asked:
            raise KeyboardInterrupt


class _Run:
    """The shards of a run: those that wait, those that Ray has, and what became of the others."""

    def __init__(self, shards: "List[int]", in_flight: int, retries: int, bar: "_Bar", ours: bool) -> None:
        self.in_flight, self.retries, self.bar, self.ours = in_flight, retries, bar, ours
        self.total = len(shards)
        self.waiting: "Deque[int]" = collections.deque(shards)
        self.later: "List[Tuple[float, int]]" = []  # a heap: when to try a shard again
        self.running: "Dict[Any, int]" = {}
        self.tries: "Dict[int, int]" = collections.defaultdict(int)
        self.failed: "Dict[int, _End]" = {}
        self.done = self.again = 0
        self.seconds = 0.0

    def start(self, ray: Any, submit: Any) -> None:
        """Has submit run every shard, and returns when all are packed."""
        began = time.monotonic()
        with _Interrupts() as interrupts:
            try:
                while self.waiting or self.later or self.running:
                    self._submit(submit)
                    for ref in self._ended(ray):
                        self._took(self.running.pop(ref), _end(ray, ref))
                    self.bar.show(self.done, self.total, len(self.running), len(self.later), time.monotonic() - began)
                    interrupts.check()
            except BaseException:
                self._cancel(ray)
                raise
            finally:
                self.bar.close()
                self.seconds = time.monotonic() - began
        if self.failed:
            raise Error(self._report(), max((end.code or 0 for end in self.failed.values()), default=None))

    def _submit(self, submit: Any) -> None:
        while self.later and self.later[0][0] <= time.monotonic():
            self.waiting.appendleft(heapq.heappop(self.later)[1])
        while self.waiting and len(self.running) < self.in_flight:
            shard = self.waiting.popleft()
            self.tries[shard] += 1
            self.running[submit(shard)] = shard

    def _ended(self, ray: Any) -> "List[Any]":
        if not self.running:  # all that is left waits to be tried again
            time.sleep(max(0.0, min(0.5, self.later[0][0] - time.monotonic())) if self.later else 0)
            return []
        ended: "List[Any]" = ray.wait(list(self.running), num_returns=1, timeout=0.5)[0]
        return ended

    def _took(self, shard: int, end: _End) -> None:
        if end.code == 0:
            self.done += 1
            return
        tries = self.tries[shard]
        if end.code == REFUSED or tries > self.retries:
            self.failed[shard] = end
            if end.code == REFUSED and self.done == 0:  # nor will the others be taken
                self.waiting.clear()
                self.later.clear()
            return
        self.again += 1
        pause = min(PAUSE, 0.5 * 2.0 ** (tries - 1))
        heapq.heappush(self.later, (time.monotonic() + pause, shard))
        self.bar.say(f"shard {shard}: {_how(end)}, tried again in {pause:g} s: {end.lines[-1] if end.lines else 'it said nothing'}")

    def _cancel(self, ray: Any) -> None:
        """Ends all tasks. In a session of our own nothing is cancelled: commands end with their workers, and these with
        the session. Some versions of Ray end the process when a task begins while it is cancelled.
        """
        with contextlib.suppress(Exception):  # Ray may be gone
            if not self.ours:
                for ref in reversed(list(self.running)):  # those that wait first, or they would begin
                    ray.cancel(ref)
            running = list(self.running)
            for ref in ray.wait(running, num_returns=len(running), timeout=0 if self.ours else 15)[0] if running else []:
                self.done += _end(ray, ref).code == 0
        self.bar.say(f"interrupted: {self.done} of {self.total} shards are packed; the same command goes on there")

    def _report(self) -> str:
        kept = "" if self.done == 0 else "; the others stay, and the same command goes on there"
        text = [f"{len(self.failed)} of {self.total} shards failed: {ranges(self.failed)}{kept}"]
        left = self.total - self.done - len(self.failed)
        if left:
            text.append(f"{left} were not begun, because the first ones were refused")
        for shard in sorted(self.failed)[:SHOWN]:
            end = self.failed[shard]
            tries = self.tries[shard]
            text.append(f"shard {shard}, {_how(end)}{f', {tries} times' if tries > 1 else ''}:")
            text += ["    " + line for line in end.lines]
        if len(self.failed) > SHOWN:
            text.append(f"and {len(self.failed) - SHOWN} more")
        return "\n".join(text)


def _end(ray: Any, ref: Any) -> _End:
    """How a task ended that has ended."""
    try:
        return _End(*ray.get(ref))
    except ray.exceptions.RayError as e:
        return _End(None, [line for line in str(e).splitlines() if line.strip()][-LINES:], "")


def _how(end: _End) -> str:
    if end.code is None:
        return "Ray lost its worker"
    return f"code {end.code} on {end.machine}" if end.code > 0 else f"killed by signal {-end.code} on {end.machine}"


def ranges(numbers: "Iterable[int]") -> str:
    """Numbers as the program writes them: "7, 12..13"."""
    parts: "List[List[int]]" = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(f"{a}..{b}" if a < b else str(a) for a, b in parts)


def numbers(text: str) -> "List[int]":
    """The numbers that ranges wrote."""
    found: "List[int]" = []
    for part in text.split(","):
        a, dots, b = part.strip().partition("..")
        if not a.isdigit() or dots and not b.isdigit():
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is neither a number nor a range such as 12..13")
        found += range(int(a), int(b or a) + 1)
    return found


class _Bar:
    """How far a run is: one line that is written over on a terminal, and one now and then elsewhere."""

    def __init__(self, on: bool) -> None:
        self._on, self._over, self._next = on, sys.stderr.isatty(), 0.0

    def show(self, done: int, total: int, running: int, later: int, seconds: float) -> None:
        now = time.monotonic()
        if not self._on or now < self._next and done < total:
            return
        self._next = now + (0.2 if self._over else 10)
        full = int(30 * done / total)
        left = f", {_span(seconds * (total - done) / done)} left" if 0 < done < total else ""
        text = f"packing [{'=' * full}{' ' * (30 - full)}] {done} of {total} shards, {running} with Ray{f', {later} to try again' if later else ''}{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if self._over else text + "\n")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        if self._on:
            sys.stderr.write(("\r\x1b[K" if self._over else "") + text + "\n")

    def close(self) -> None:
        if self._on and self._over:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="pipefs-ray", description="Packs the shards of a plan by Ray. Further options are those of `pipefs pack --plan`, "
                                "written as --name=value: --dataset=/data/imagenet, --endpoint=http://HOST:PORT")
    p.add_argument("plan", metavar="PLAN", help="the address that `pipefs plan` prints")
    p.add_argument("--shards", type=numbers, metavar="A..B,C", help="these only (default: all that have no marker)")
    p.add_argument("--num-cpus", type=float, default=1, metavar="N", help="processors of a task (default 1)")
    p.add_argument("--memory", type=int, metavar="BYTES", help="memory of a task, for Ray to count")
    p.add_argument("--resources", type=json.loads, metavar="JSON", help="resources of a task: '{\"disk\": 1}'")
    p.add_argument("--in-flight", type=int, default=256, metavar="N", help="tasks that Ray knows of at once (default 256)")
    p.add_argument("--retries", type=int, default=10, metavar="N", help="how often a shard that fails is tried again (default 10)")
    p.add_argument("--env", action="append", default=[], metavar="NAME", help="a variable of this environment that tasks get; may be repeated")
    p.add_argument("--commit", action="store_true", help="commit the plan when all shards are packed")
    p.add_argument("--allow-failed", type=int, default=0, metavar="N", help="of the commit: samples that may have failed")
    p.add_argument("--quiet", action="store_true", help="show no progress")
    return p


def main() -> None:
    """The command pipefs-ray, and python -m pipefs.ray."""
    parser = _parser()
    given, others = parser.parse_known_args()
    options: "Dict[str, Option]" = {}
    for argument in others:
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            parser.error(f"{argument}: write options of pipefs pack as --name=value")
        options[name[2:].replace("-", "_")] = value if equals else True

    try:
        packed = pack(given.plan, shards=given.shards, num_cpus=given.num_cpus, memory=given.memory, resources=given.resources,
                      in_flight=given.in_flight, retries=given.retries, env=given.env, commit=given.commit,
                      allow_failed=given.allow_failed, progress=not given.quiet, **options)
        print(f"{packed.shards} shards are packed, in {_span(packed.seconds)}{f', with {packed.again} more tries' if packed.again else ''}")
    except Error as e:
        print(f"pipefs-ray: {e}", file=sys.stderr)
        sys.exit(e.code or 2)
    except KeyboardInterrupt:
        sys.exit(8)  # as pipefs


if __name__ == "__main__":
    # What Ray sends to other machines is of the module that they import.
    from pipefs.ray import main as run

    run()
