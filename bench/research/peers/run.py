#!/usr/bin/env python3
"""Compare pipefs with other ways of storing and loading pictures. See README.md.

All of them read the same pictures and make the same batches, in turn, in one run:
in each round every loader reads a first epoch, with the page cache dropped, and a
later one, once for each kind of batches. What is compared is the rate with that of
plain ImageFolder in the same round.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import common
import install
import limits
import pictures
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = common.ROOT


class Child:
    """A peer's own process, epoch.py."""

    def __init__(self, python, name, row, options, log, limit):
        self.log, self.limit = log, limit
        with open(log, "ab") as to:
            self.process = subprocess.Popen(
                [python, os.path.join(HERE, "epoch.py"), name, row.id, json.dumps(dataclasses.asdict(options))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=to, text=True, start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

    def ask(self, do, **request):
        late = threading.Event()

        def end():
            late.set()
            self.kill()

        timer = threading.Timer(self.limit, end)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        if late.is_set():
            raise common.Failed(f"{do}: no answer in {self.limit} s")
        self.process.wait()
        with open(self.log, encoding="utf-8", errors="replace") as f:
            raise common.Failed(f"{do}: {common.last_lines(f.read(), 2)}")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        self.kill()  # what it may have left running
        self.process.wait()
        self.process.stdout.close()


class Comparison:
    def __init__(self, args, src, out, data, mounts):
        self.args, self.src, self.data, self.mounts = args, src, data, mounts
        self.out = out
        self.results_path = os.path.join(out, "check.json" if args.check else "results.json")
        self.entries = {}  # row id: (peer's name, peer, row, its interpreter, options)
        found, classes = common.samples(src)
        if not found:
            raise common.Failed(f"{src}: no pictures in directories of classes")
        self.want = [0] * len(classes)
        for _, label in found:
            self.want[label] += 1
        self.paths = [path for path, _ in found]
        self.cold = "not" if args.warm else cold_by()
        self.results = {
            "options": {"workers": args.workers, "batch": args.batch, "rounds": args.rounds, "epochs": args.epochs, "seed": args.seed,
                        "kinds": args.kinds, "recipe": args.recipe, "limits": limits.words(args)},
            "dataset": {
                "directory": src, "images": len(found), "classes": len(classes),
                "png": sum(p.lower().endswith(".png") for p in self.paths),
                "jpeg": sum(not p.lower().endswith(".png") for p in self.paths),
                "bytes": sum(os.stat(p).st_size for p in self.paths),
                "disk_bytes": sum(os.stat(p).st_blocks * 512 for p in self.paths)},
            "machine": machine(data), "commit": commit(args.pipefs), "cold": COLD[self.cold],
            "rounds_done": 0, "installed": {}, "not_installed": {}, "rows": {}}

    def save(self):
        partial = self.results_path + ".partial"
        with open(partial, "w", encoding="utf-8") as f:
            json.dump(self.results, f, indent=1)
        os.replace(partial, self.results_path)

    def install(self):
        for name, peer in common.peers().items():
            rows = [r for r in peer.ROWS if r.id in self.args.rows]
            if not rows:
                continue
            try:
                if hasattr(peer, "missing") and peer.missing():
                    raise common.Failed(peer.missing())
                python, venv, took = install.install(name, peer, self.out, say)
            except common.Failed as e:
                say(f"{name} cannot be installed: {e}")
                self.results["not_installed"][name] = str(e)
                continue
            self.results["installed"][name] = took
            for row in rows:
                options = common.Options(self.args.workers, self.args.batch, pipefs=self.args.pipefs, venv=venv,
                                         work=os.path.join(self.data, "work"), recipe=self.args.recipe)
                self.entries[row.id] = name, peer, row, python, options
                self.results["rows"][row.id] = {
                    "name": row.name, "same": row.same, "note": row.note, "resize": row.resize, "control": row.control,
                    "mounted": hasattr(peer, "mount"), "passes": {kind: [] for kind in self.args.kinds}}

    @contextlib.contextmanager
    def child(self, id):
        name, _, row, python, options = self.entries[id]
        self.clear(options)
        child = Child(python, name, row, options, os.path.join(self.out, id + ".log"), self.args.limit)
        try:
            yield child
        except BaseException:
            child.kill()
            raise
        finally:
            child.close()
            common.unmount_below(options.work)
            self.clear(options)

    def clear(self, options):
        shutil.rmtree(options.work, ignore_errors=True)
        os.makedirs(options.work)

    def stored(self, id):
        return os.path.join(self.data, self.entries[id][2].store)

    def prepare(self, id):
        _, peer, row, _, options = self.entries[id]
        result = self.results["rows"][id]
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self.out, id + ".log"))
        with self.child(id) as child:
            result["versions"] = child.ask("versions")
            if hasattr(peer, "mount_versions"):
                result["versions"].update(peer.mount_versions(options))
            if not row.prepared:
                return
            for other, entry in self.entries.items():
                if entry[2].store == row.store and "prepare" in self.results["rows"][other]:
                    result["prepare"] = self.results["rows"][other]["prepare"]
                    return
            say(f"preparing {row.name}")
            shutil.rmtree(self.stored(id), ignore_errors=True)
            os.makedirs(self.stored(id))
            result["prepare"] = child.ask("prepare", src=self.src, dst=self.stored(id))
            os.sync()
            result["prepare"]["bytes"] = common.tree_bytes(self.stored(id))

    def measure(self, id, number):
        """A first and a later epoch of a row, of each kind of batches."""
        with self.child(id) as child:
            for kind in self.args.kinds:
                done = {"round": number, **self.epochs(child, id, number, kind)}
                self.results["rows"][id]["passes"][kind].append(done)
                first, later = (report.rate(done[epoch]) for epoch in ("first", "later"))
                say(f"round {number + 1} of {self.args.rounds}: {self.entries[id][2].name}, {kind}: started in "
                    f'{done["first"]["start"]:.1f} s, {first:,.0f}, then {later:,.0f} images/s')

    def epochs(self, child, id, number, kind):
        _, peer, row, _, options = self.entries[id]
        with contextlib.ExitStack() as stack:
            where, mount = self.stored(id) if row.prepared else self.src, None
            if hasattr(peer, "mount"):
                self.clear(options)
                mnt = os.path.join(self.mounts, f"{id}.{kind}.{number}")
                mount = peer.mount(self.src, self.stored(id), mnt, row, options)
                stack.callback(mount.close)
                where = mount.directory
            child.ask("build", where=where, kind=kind, seed=self.args.seed + number)
            drop(self.cold, [self.stored(id) if row.prepared else self.src, where])
            done = {}
            for epoch in ["first"] + ["later"] * (self.args.epochs - 1):
                done[epoch] = child.ask("epoch", daemon=mount.pid if mount else 0)
                self.verify(done[epoch].pop("labels"))
            return done

    def verify(self, labels):
        """Every sample once: as many of each class as there are."""
        labels += [0] * (len(self.want) - len(labels))
        if labels != self.want:
            wrong = [(c, got, want) for c, (got, want) in enumerate(zip(labels, self.want)) if got != want]
            told = ", ".join(f"class {c}: {got} of {want}" for c, got, want in wrong[:3]) or "labels that no class has"
            raise common.Failed(f"an epoch of {sum(labels):,} samples for {sum(self.want):,}: {told}")

    def attempt(self, id, what, *args):
        """A row that fails is left out from then on; the others go on."""
        try:
            return what(id, *args)
        except (common.Failed, OSError, ValueError) as e:
            self.results["rows"][id]["error"] = str(e)
            say(f"{self.entries[id][2].name}: {e}")
            return None

    def well(self):
        return [id for id in self.entries if "error" not in self.results["rows"][id]]

    def run(self):
        self.install()
        for path in self.paths:  # all preparing starts with the pictures in memory
            with open(path, "rb") as f:
                f.read()
        for id in self.well():
            self.attempt(id, self.prepare)
        self.save()
        order = random.Random(self.args.seed)
        with limits.applied(self.args, self.data):
            for number in range(self.args.rounds):
                for id in order.sample(self.well(), len(self.well())):
                    self.attempt(id, self.measure, number)
                    self.save()
                self.results["rounds_done"] = number + 1
                self.save()

    def failures(self):
        return [*self.results["not_installed"], *(r["name"] for r in self.results["rows"].values() if "error" in r)]


def say(line):
    print("bench-peers: " + line, file=sys.stderr, flush=True)


COLD = {"not": "the page cache", "drop_caches": "the disk (page cache dropped by the kernel)",
        "fadvise": "the disk (pages dropped by posix_fadvise, file by file)"}


def cold_by():
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii"):
            return "drop_caches"
    except OSError:
        return "fadvise"


def drop(how, directories):
    """Makes the next epoch read from the disk."""
    if how == "not":
        return
    os.sync()
    if how == "drop_caches":
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
            f.write("3")
        return
    for top in reversed(directories):  # a mount before what it reads from
        for directory, _, names in os.walk(top):
            for name in names:
                fd = os.open(os.path.join(directory, name), os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def machine(directory):
    cpu = platform.machine()
    with contextlib.suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    return {
        "cpu": cpu, "cores": len(os.sched_getaffinity(0)),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        "kernel": platform.release(), "python": platform.python_version(), "load": os.getloadavg()[0],
        "filesystem": common.run(["df", "--output=fstype", directory]).split()[-1]}


def commit(program):
    told = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return told.stdout.strip() or common.run([program, "version"]).split()[1]


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def kinds(text):
    asked = text.split(",")
    if not set(asked) <= set(common.KINDS):
        raise argparse.ArgumentTypeError(f"{text}: there are {', '.join(common.KINDS)}")
    return [kind for kind in common.KINDS if kind in asked]


def names(text):
    known = {n for name, peer in common.peers().items() for n in (name, *(r.id for r in peer.ROWS))}
    asked = text.split(",")
    unknown = sorted(set(asked) - known)
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return asked


def chosen(only, every):
    """The ids of the rows to measure: what was asked for, and what that is compared with."""
    ids = {common.CONTROL}
    for name, peer in common.peers().items():
        for row in peer.ROWS:
            if (row.id in only or name in only) if only else (every or not row.named):
                ids |= {row.id, row.control}
    return ids


def arguments(argv):
    ap = argparse.ArgumentParser(prog="bench-peers", description=__doc__.splitlines()[0])
    ap.add_argument("--pictures", metavar="DIR", help="an ImageFolder tree of JPEG and PNG, or a directory of them, "
                    "which become ten classes (default: 1,000 generated ones)")
    ap.add_argument("--copies", type=positive, default=1, help="of each picture, so that an epoch lasts (default 1)")
    ap.add_argument("--png", action="store_true", help="the same pictures as PNG files")
    ap.add_argument("--rounds", type=positive, default=4, help="(default 4)")
    ap.add_argument("--epochs", type=positive, default=2, help="of these the last one is the later one (default 2)")
    ap.add_argument("--workers", type=positive, default=2)
    ap.add_argument("--batch", type=positive, default=64)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--kinds", type=kinds, default=common.KINDS, metavar="KIND,…", help="of batches: uint8, float32 (default both)")
    ap.add_argument("--only", type=names, metavar="NAME,…", help="these loaders or rows, and ImageFolder")
    ap.add_argument("--recipe", choices=sorted(common.RECIPES), default="", help="also this step of pipefs and its transform of torchvision: "
                    "ImageFolder and the random rows of pipefs only")
    ap.add_argument("--all", action="store_true", help="also those that bring the same bytes in other ways")
    ap.add_argument("--warm", action="store_true", help="leave the page cache as it is before the first epoch")
    limits.add_arguments(ap)
    ap.add_argument("--limit", type=positive, default=900, help="seconds for one epoch, or for preparing (default 900)")
    ap.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    ap.add_argument("--again", action="store_true", help="print the last results again")
    ap.add_argument("--check", action="store_true",
                    help="one round of 130 pictures, each a class of its own: whether every loader gives every one once")
    ap.add_argument("--pipefs", default=os.path.join(ROOT, "bin", "pipefs"), metavar="PROGRAM")
    ap.add_argument("--out", default=os.path.join(ROOT, "bin", "peers"), metavar="DIR")
    ap.add_argument("--selftest", action="store_true", help="check this program's own parts; installs and measures nothing")
    args = ap.parse_args(argv)
    if args.epochs < 2:
        ap.error("--epochs=1: there is no later epoch to compare; give 2 or more")
    if args.check:
        args.rounds, args.warm = 1, True
        if args.pictures or args.copies > 1:
            ap.error("--check takes generated pictures: each has to be a class of its own")
    args.rows = chosen(args.only or [], args.all or args.check)
    if args.recipe:
        args.rows = {common.CONTROL} | {row for row in args.rows if row.startswith(("pipefs-rrc", "pipefs-epoch"))}
    args.pipefs, args.out = os.path.abspath(args.pipefs), os.path.abspath(args.out)
    return args


def show(results, form):
    if form == "json":
        print(json.dumps(results, indent=1))
        return
    print(report.render(results, form))
    if form == "text":
        print("\nAs Markdown: make bench-peers ARGS='--again --format=markdown'")


def again(args):
    path = os.path.join(args.out, "results.json")
    try:
        with open(path, encoding="utf-8") as f:
            results = json.load(f)
    except (OSError, ValueError) as e:
        raise common.Failed(f"{path}: {e}: run without --again first") from e
    show(results, args.format)


def main(argv):
    args = arguments(argv)
    if args.selftest:
        import selftest
        return selftest.main()
    if args.again:
        return again(args)
    if not os.access(args.pipefs, os.X_OK):
        raise common.Failed(f"there is no {args.pipefs}: make build")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.makedirs(args.out, exist_ok=True)
    src = pictures.tree(args, say)
    # Prepared formats lie on the disk of --out; mounts have short paths.
    with tempfile.TemporaryDirectory(prefix="data.", dir=args.out) as data, \
            tempfile.TemporaryDirectory(prefix="pipefs-peers.") as mounts:
        comparison = Comparison(args, src, args.out, data, mounts)
        try:
            comparison.run()
        except KeyboardInterrupt:
            say("interrupted: what there is")
            show(comparison.results, args.format)
            return 130
        finally:
            common.unmount_below(mounts)
    show(comparison.results, args.format)
    failed = comparison.failures()
    if failed:
        say("without " + ", ".join(failed))
        return 1
    if args.check:
        say(f"each of {len(comparison.entries)} gave each of {sum(comparison.want)} pictures once an epoch")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as e:
        sys.exit(f"bench-peers: {e}")
