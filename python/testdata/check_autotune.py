"""Judges pipefs.autotune: check_autotune.py DATASET, which has JPEG files in ImageFolder's layout."""

import copy
import logging
import os
import random
import sys
import unittest

import numpy as np
import pipefs
import torch
from PIL import Image
from pipefs import autotune
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder

MOUNT = pipefs.mount(sys.argv[1])
MNT = MOUNT.mountpoint
torch.set_num_threads(1)


class Elsewhere:
    """The mount, with another path of a view."""

    def __init__(self, **paths):
        self.paths, self.fidelity = paths, MOUNT.fidelity

    def path(self, view):
        return self.paths.get(view) or MOUNT.path(view)


def pixels(image):
    return torch.from_numpy(np.asarray(image.convert("RGB").resize((48, 48)), np.float32).transpose(2, 0, 1)) / 128 - 1


def noisy(image):
    """An augmentation that takes random numbers of all kinds."""
    return pixels(image) * random.uniform(0.9, 1.1) + torch.randn(1) * 0.01 + np.random.normal() * 0.01


def folder(root):
    return ImageFolder(root, pixels)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, 2), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 23 * 23, 4))


def loss(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def tuner(mount=None, model=None, **options):
    options = {"dataset": folder, "loss": loss, "every": 1, "batches": 2, "batch_size": 8, **options}
    return autotune.Autotune(mount or MOUNT, model or network(), **options)


class Similarity(unittest.TestCase):
    def test_is_the_cosine(self):
        """Computed in another way: files opened by name, and gradients of backward."""
        model = network().eval()
        paths = [os.path.relpath(p, MNT + "/scan10") for p, _ in folder(MNT + "/scan10").samples]
        labels = torch.tensor(folder(MNT + "/scan10").targets)
        vectors = {}
        for k in (1, 2, 5, 10):
            other = copy.deepcopy(model)
            x = torch.stack([pixels(Image.open(os.path.join(MNT, f"scan{k}", p))) for p in paths])
            loss(other, (x, labels)).backward()
            vectors[k] = torch.cat([p.grad.flatten() for p in other.parameters()])
        want = {k: torch.nn.functional.cosine_similarity(v, vectors[10], dim=0).item() for k, v in vectors.items()}
        found = tuner(model=model, batches=1, batch_size=len(paths)).similarity()
        for k, v in want.items():
            self.assertAlmostEqual(found[k], v, places=4)
        self.assertLess(found[1], found[5])
        self.assertAlmostEqual(found[10], 1, places=6)
        against = tuner(model=model, batches=1, batch_size=len(paths), against="original").similarity()
        self.assertAlmostEqual(against[10], 1, places=6)  # scan10 has the pixels of the file
        self.assertAlmostEqual(against[1], found[1], places=4)

    def test_random_numbers_are_the_same_at_each_fidelity(self):
        for workers in (0, 2):
            same = tuner(dataset=lambda root: ImageFolder(root.replace("scan1", "scan10").replace("scan100", "scan10"), noisy), scans=(1, 10), workers=workers)
            with self.assertRaisesRegex(autotune.Incomparable, "scan1 gives the gradient of scan10"):
                same.similarity()


class Training(unittest.TestCase):
    def train(self, tune):
        model = network().train()
        optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        random.seed(3), np.random.seed(3), torch.manual_seed(3)
        loader = DataLoader(ImageFolder(MNT + "/scan10", noisy), 8, shuffle=True)
        t = tuner(model=model, every=2) if tune else None
        for epoch in range(2):
            for batch in loader:
                optimiser.zero_grad()
                loss(model, batch).backward()
                optimiser.step()
                if t:
                    gradients = [(p.grad, p.grad.clone()) for p in model.parameters()]
                    t.step()
                    for p, (g, value) in zip(model.parameters(), gradients):
                        self.assertIs(p.grad, g)
                        self.assertTrue(torch.equal(g, value))
        if t:
            self.assertGreaterEqual(len(t.history), 2)
            self.assertFalse([h for h in t.history if h.problem])
            self.assertTrue(model.training)
        return model.state_dict()

    def test_is_the_same_with_a_tuner(self):
        """Statistics of batch normalisation, dropout, shuffling and augmentation included."""
        a, b = self.train(False), self.train(True)
        for name in a:
            self.assertTrue(torch.equal(a[name], b[name]), name)

    def test_schedule(self):
        t = tuner(first=3, every=2, batches=1)
        self.assertEqual([bool(t.step()) for _ in range(7)], [False, False, True, False, True, False, True])
        self.assertEqual([h.step for h in t.history], [3, 5, 7])


class Fidelity(unittest.TestCase):
    def test_a_loader_sees_it(self):
        m = MOUNT
        m.fidelity(2)
        t = tuner(m, mark=-1)
        self.assertEqual(m.fidelity(), "scan10")  # at first all scans
        before = ImageFolder(m.path("current"), pixels)
        loader = iter(DataLoader(before, 4, num_workers=1, prefetch_factor=1, persistent_workers=True))
        next(loader)
        full = before[0][0]
        self.assertEqual(t.tune().scans, 1)
        self.assertEqual(m.fidelity(), "scan1")
        coarse = folder(MNT + "/scan1")
        self.assertTrue(torch.equal(before[0][0], coarse[0][0]))
        self.assertFalse(torch.equal(before[0][0], full))
        last = list(loader)[-1][0]  # by a worker that was started before
        self.assertTrue(torch.equal(last[-1], coarse[len(coarse) - 1][0]))

    def test_the_lowest_above_the_mark(self):
        t = tuner()
        t.similarity = lambda: {1: 0.5, 2: 0.79, 5: 0.81, 10: 1.0}
        self.assertEqual(t.tune().scans, 5)
        self.assertEqual(t.mount.fidelity(), "scan5")

    def problem(self, says, **options):
        """All scans are read, it is told once, and training goes on."""
        t = tuner(**options)
        t.mount.fidelity(2)
        with self.assertLogs("pipefs.autotune", logging.WARNING) as told:
            found = t.step()
        self.assertEqual((found.scans, found.similarity, t.mount.fidelity()), (10, {}, "scan10"))
        self.assertRegex(found.problem, says)
        self.assertEqual(len(told.output), 1)
        self.assertRegex(told.output[0], "all scans are read: .*" + says)

    def test_problems(self):
        self.problem("nosuch", mount=Elsewhere(scan2=MNT + "/nosuch"))
        self.problem("a gradient is zero", loss=lambda m, b: loss(m, b) * 0)
        self.problem("a gradient is not finite", loss=lambda m, b: loss(m, b) * float("nan"))
        self.problem("scan1 gives the gradient of scan10", dataset=lambda root: folder(MNT + "/scan10"))
        self.problem("less than a batch of 9999", batch_size=9999)
        self.problem("scan5 has 9 samples, scan10 has 24", dataset=lambda root: Subset(folder(root), range(9 if "scan5" in root else 24)))

        class Broken(ImageFolder):
            def __getitem__(self, i):
                with open(self.samples[i][0] + ".gone", "rb"):
                    pass

        self.problem("gone", dataset=lambda root: Broken(root) if "scan2" in root else folder(root))
        self.problem("gone", dataset=lambda root: Broken(root) if "scan2" in root else folder(root), workers=1)

    def test_errors_of_the_caller_are_raised(self):
        for options in ({"every": 0}, {"every": 1, "scans": ()}):
            with self.assertRaises(ValueError):
                autotune.Autotune(MOUNT, network(), folder, loss, **options)
        with self.assertRaisesRegex(RuntimeError, "scalar"):
            tuner(loss=lambda m, b: m(b[0])).tune()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
