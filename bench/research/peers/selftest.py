"""Tests of what run.py itself does. They need no peer, no network and no mount."""
import compileall
import contextlib
import importlib.util
import io
import math
import os
import re
import sys
import tempfile
import time
import unittest

import common
import epoch
import install
import limits
import pictures
import report
import run

HERE = os.path.dirname(os.path.abspath(__file__))


def passed(*seconds):
    """Passes of rounds 0, 1, …: the later epoch takes half of the first, and so do batches of float32."""
    def of(s):
        return [{"round": i, "first": {"start": 0.3, "images": 100, "seconds": s, "cpu": s, "daemon_cpu": 0.5},
                 "later": {"start": 0, "images": 100, "seconds": s / 2, "cpu": s / 2, "daemon_cpu": 0}}
                for i, s in enumerate(s)]
    return {"uint8": of(seconds), "float32": of([s / 2 for s in seconds])}


def results():
    def row(name, same=True, **more):
        return {"name": name, "same": same, "note": "", "mounted": False, "passes": passed(), "resize": "somehow",
                "control": common.CONTROL, **more}

    return {
        "options": {"workers": 2, "batch": 64, "rounds": 3, "epochs": 2, "kinds": common.KINDS, "limits": ["400 MB/s from the disk"]},
        "dataset": {"images": 100, "jpeg": 90, "png": 10, "classes": 5, "bytes": 10**7, "disk_bytes": 11 * 10**6},
        "machine": {"cpu": "a CPU", "cores": 2, "memory_gb": 24.0, "kernel": "6.18", "filesystem": "ext4", "python": "3.11.2"},
        "commit": "0123abc", "cold": "dropped", "rounds_done": 3,
        "installed": {"imagefolder": {}, "ffcv": {"seconds": 9.0, "bytes": 3 * 10**8}},
        "not_installed": {"dali": "no such wheel"},
        "rows": {
            "imagefolder": row("ImageFolder", passes=passed(4, 4, 4), versions={"torch": "1.13"}),
            "ffcv-jpeg": row("FFCV", same=False, note="own decoder", passes=passed(2, 1, 2),
                             prepare={"seconds": 1.5, "cpu": 2.0, "bytes": 5 * 10**6}),
            "pipefs-ppm": row("pipefs ppm/", mounted=True, passes=passed(4, 8)),
            "crop": row("crop", control="nosuch", passes=passed(4)),
            "litdata": row("LitData", error="it broke"),
        }}


class Statistics(unittest.TestCase):
    def test_bootstrap(self):
        self.assertEqual(report.bootstrap([3.0] * 5), (3.0, 3.0, 3.0))
        middle, low, high = report.bootstrap([1.0, 2.0, 3.0, 4.0, 100.0])
        self.assertEqual((middle, low, high), (3.0, 1.0, 100.0))
        middle, low, high = report.bootstrap([float(v) for v in range(101)])
        self.assertEqual(middle, 50)
        self.assertTrue(30 < low < 45 and 55 < high < 70, (low, high))
        self.assertEqual(report.bootstrap([1.0, 5.0, 2.0]), report.bootstrap([1.0, 5.0, 2.0]))
        self.assertTrue(math.isnan(report.bootstrap([])[0]))

    def test_ratios_are_of_the_same_round(self):
        control, row = {"passes": passed(4, 6, 8)}, {"passes": {"uint8": passed(2, 3, 4)["uint8"][1:]}}
        self.assertEqual(report.ratios(row, control, "first", "uint8"), [2.0, 2.0])

    def test_table(self):
        notes = []
        by = {r[0]: r[1:] for r in report.table(results(), "uint8", notes)[1:]}
        self.assertEqual(len(by), 4)  # LitData has no pass
        self.assertEqual(by["ImageFolder"], ["somehow", "25", "1", "45.00", "50", "1", "20.00", "0.3", "–", "11.0"])
        self.assertEqual(by["FFCV [1,2]"], ["somehow", "50", "2.00 (2.00 – 4.00)", "25.00", "100", "2.00 (2.00 – 4.00)", "10.00",
                                            "0.3", "1.5", "5.0"])
        self.assertEqual(by["pipefs ppm/"][2:4], ["0.75 (0.50 – 1.00)", "65.00 (5.00)"])
        self.assertEqual(by["crop"][2], "–")  # its control failed
        self.assertEqual(notes[1], "own decoder")
        self.assertEqual(report.table(results(), "float32", notes)[1][2], "50")
        self.assertEqual(len(notes), 2)

    def test_render(self):
        for form in ("text", "markdown"):
            told = report.render(results(), form)
            for wanted in ("no such wheel", "LitData: it broke", "torch 1.13", "ffcv 300 MB", "0123abc", "3 of 3 rounds", "uint8", "float32",
                           "400 MB/s"):
                self.assertIn(wanted, told)
        self.assertIn("|---|", report.render(results(), "markdown"))


class Parts(unittest.TestCase):
    def test_arguments(self):
        args = run.arguments(["--only", "ffcv,pipefs-ppm", "--rounds", "7"])
        self.assertEqual((args.only, args.rounds, args.workers, args.batch), (["ffcv", "pipefs-ppm"], 7, 2, 64))
        self.assertEqual(run.arguments(["--check"]).rounds, 1)
        for bad in (["--only", "nosuch"], ["--rounds", "0"], ["--epochs", "1"], ["--workers", "x"], ["--check", "--pictures", "d"],
                    ["--check", "--copies", "2"], ["--kinds", "uint9"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as told:
                run.arguments(bad)
            self.assertIn("error:", told.getvalue())

    def test_rows_and_kinds(self):
        self.assertEqual(run.arguments(["--kinds", "float32,uint8"]).kinds, ["uint8", "float32"])
        self.assertEqual(run.arguments(["--only", "pipefs-centre"]).rows, {common.CONTROL, "imagefolder-centre", "pipefs-centre"})
        every = run.arguments(["--all"]).rows
        self.assertLess(run.arguments([]).rows, every)
        self.assertEqual(every, run.arguments(["--check"]).rows)
        self.assertEqual(every, {row.id for peer in common.peers().values() for row in peer.ROWS})

    def test_pictures_are_copied(self):
        with tempfile.TemporaryDirectory() as top:
            os.makedirs(os.path.join(top, "flat"))
            names = [f"{i}.JPEG" for i in range(9)] + ["9.png"]
            for name in [*names, "notes.txt"]:
                with open(os.path.join(top, "flat", name), "wb") as f:
                    f.write(name.encode())
            args = run.arguments(["--pictures", os.path.join(top, "flat"), "--copies", "2", "--out", top])
            made = pictures.tree(args, lambda line: None)
            found, classes = common.samples(made)
            self.assertEqual(classes, [f"class-{i}" for i in range(10)])
            self.assertEqual([os.path.relpath(p, made) for p, _ in found], [
                f"class-{i}/{i}-{copy:02d}{os.path.splitext(names[i])[1]}" for i in range(10) for copy in range(2)])
            self.assertEqual(len({os.stat(p).st_ino for p, _ in found}), 20)
            self.assertEqual(pictures.tree(args, lambda line: self.fail("made again")), made)
            args = run.arguments(["--pictures", made])
            self.assertEqual(pictures.tree(args, lambda line: None), made)

    def test_limits(self):
        self.assertEqual(limits.words(run.arguments([])), [])
        self.assertEqual(limits.words(run.arguments(["--disk", "400", "--memory", "3000"])),
                         ["400 MB/s from the disk", "3,000 MB of memory"])
        with limits.applied(run.arguments([]), "/nosuch"):
            pass

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    def test_epochs(self):
        import numpy as np
        options = common.Options(batch=4, kind="uint8")
        batch = np.random.default_rng(0).integers(0, 256, (4, common.SIDE, common.SIDE, 3), np.uint8)
        done = epoch.read([(batch, [0, 0, 1, 2]), (batch[:1], [2])], options, os.getpid())
        self.assertEqual((done["images"], done["labels"]), (1, [2, 1, 2]))
        for bad in ([(batch, [0] * 4)], [(batch, [0] * 3)] * 2, [(batch * 0, [0] * 4)] * 2, [(batch / 255, [0] * 4)] * 2,
                    [(batch[:, :100], [0] * 4)] * 2):
            with self.assertRaises(common.Failed):
                epoch.read(bad, options, 0)
        floats = (batch / 255).astype(np.float32).transpose(0, 3, 1, 2)
        epoch.read([(floats, [0] * 4)] * 2, common.Options(batch=4, kind="float32"), 0)

    def test_again_without_results(self):
        with tempfile.TemporaryDirectory() as empty, self.assertRaisesRegex(common.Failed, "without --again"):
            run.main(["--again", "--out", empty])

    def test_verify(self):
        comparison = run.Comparison.__new__(run.Comparison)
        comparison.want = [2, 1]
        comparison.verify([2, 1])
        for labels in ([2, 0], [2, 1, 1], [1, 2], []):
            with self.assertRaises(common.Failed):
                comparison.verify(labels)

    def test_samples(self):
        with tempfile.TemporaryDirectory() as top:
            for path in ("b/2.jpg", "b/1.PNG", "a/x.jpeg", "a/notes.txt", "labels.json"):
                os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
                with open(os.path.join(top, path), "wb") as f:
                    f.write(b"x")
            found, classes = common.samples(top)
            self.assertEqual(classes, ["a", "b"])
            self.assertEqual([(os.path.relpath(p, top), n) for p, n in found], [("a/x.jpeg", 0), ("b/1.PNG", 1), ("b/2.jpg", 1)])
            self.assertGreater(common.tree_bytes(top), 0)
            run.drop("fadvise", [top])

    def test_cpu_counts_children(self):
        before = epoch.cpu()
        child = os.fork()
        if child == 0:
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass
            os._exit(0)
        os.waitpid(child, 0)
        self.assertGreater(epoch.cpu() - before, 0.09)

    def test_commands_that_fail(self):
        with self.assertRaisesRegex(common.Failed, "exit code 3: that is why"):
            common.run(["sh", "-c", "echo that is why; exit 3"])
        with self.assertRaisesRegex(common.Failed, "cannot be run"):
            common.run(["/nosuch/program"])
        with tempfile.TemporaryDirectory() as top, self.assertRaisesRegex(common.Failed, "did not mount: no device"):
            common.mount_in_foreground(["sh", "-c", "echo no device; exit 1"], os.path.join(top, "m"), os.path.join(top, "log"))

    def test_reasons_of_pip(self):
        log = "Collecting x\nERROR: Could not find a version\nERROR: No matching distribution\n\n[notice] new pip\n"
        self.assertEqual(install.why(log), "ERROR: Could not find a version / ERROR: No matching distribution")
        self.assertEqual(install.why("Traceback\nImportError: libGL.so.1\n"), "ImportError: libGL.so.1")


class Peers(unittest.TestCase):
    def test_compiles(self):
        with tempfile.TemporaryDirectory() as cache:
            before, sys.pycache_prefix = sys.pycache_prefix, cache
            try:
                self.assertTrue(compileall.compile_dir(HERE, quiet=1, force=True))
            finally:
                sys.pycache_prefix = before

    def test_each_is_complete(self):
        ids = []
        for name, peer in common.peers().items():
            ids += [row.id for row in peer.ROWS]
            for function in ("loader", "versions"):
                self.assertTrue(callable(getattr(peer, function, None)), f"{name}.{function}")
            if any(row.prepared for row in peer.ROWS):
                self.assertTrue(callable(getattr(peer, "prepare", None)), name)
            self.assertEqual(hasattr(peer, "mount"), hasattr(peer, "mount_versions"), name)
            wanted = os.path.exists(os.path.join(HERE, "requirements", name + ".txt"))
            self.assertEqual(wanted, hasattr(peer, "IMPORTS"), name)
            for row in peer.ROWS:
                self.assertIn(row.control, {r.id for p in common.peers().values() for r in p.ROWS})
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(ids[0], common.CONTROL)

    def test_requirements_are_pinned(self):
        for name in os.listdir(os.path.join(HERE, "requirements")):
            self.assertIn(name[:-4], ["base", *common.peers()])
            with open(os.path.join(HERE, "requirements", name), encoding="ascii") as f:
                for line in f:
                    self.assertRegex(line, re.compile(r"^(#.*|[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*)\n$"), name)


def main():
    done = unittest.TextTestRunner(stream=sys.stderr).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    return 0 if done.wasSuccessful() else 1
