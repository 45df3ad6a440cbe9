"""Tunes the fidelity of JPEG files while a PyTorch model trains, as PCR does.

The controller is the one of Kuchnik et al., *Progressive Compressed Records* (PVLDB 14,
2021), Sections 4.3 and 6.5: from time to time it holds the model still, compares the
gradient at a few fidelities with the gradient of full pictures, and goes on with the lowest
fidelity whose gradient has nearly the same direction. Early on few scans will do; later,
when finer structure matters, it takes more.

    import pipefs
    from pipefs.autotune import Autotune

    def loss(model, batch):
        x, y = batch
        return torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())

    with pipefs.mount("photos.store") as m:
        loader = DataLoader(ImageFolder(m.path("current"), augment), batch_size=64, shuffle=True, num_workers=4)
        tuner = Autotune(m, model, lambda root: ImageFolder(root, plain), loss,
                         first=5 * len(loader), every=20 * len(loader))
        for epoch in range(90):
            for batch in loader:
                optimiser.zero_grad()
                loss(model, batch).backward()
                optimiser.step()
                tuner.step()

It moves `MNT/current`, for all who share the mount. A loader sees that if it opens each file by its path below
`m.path("current")` whenever it reads a sample, as torchvision's ImageFolder does. Workers may
have read some batches ahead. What does not see it: a dataset that keeps pictures or open files,
and one that resolves links (`os.path.realpath`, `Path.resolve`) before it opens its files.

PyTorch is imported when it is used; nothing else is needed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Protocol, Sequence

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset

log = logging.getLogger(__name__)


class Views(Protocol):
    """A mount: what `pipefs.mount` returns has all of it."""

    def path(self, view: str) -> str:
        """The directory of a view."""

    def fidelity(self, scans: int) -> Any:
        """Moves MNT/current to a fidelity."""


class Incomparable(ValueError):
    """Two gradients cannot be compared; the message says why."""


class Measurement(NamedTuple):
    """What the tuner found, and what it did."""

    step: int  #: of the training, counted from 1
    similarity: dict[int, float]  #: by scans, from -1 to 1; empty if it could not be measured
    scans: int  #: the fidelity that was set
    seconds: float  #: that it took
    problem: str = ""  #: why it could not be measured


def gradient(model: torch.nn.Module, loss: Callable[[Any, Any], torch.Tensor], batches: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the gradient of `loss(model, batch)`, added up over batches, parameter by parameter.

    The `.grad` of parameters is neither read nor written; buffers may change.
    """
    import torch

    parameters = [p for p in model.parameters() if p.requires_grad]
    total = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    with torch.enable_grad():
        for batch in batches:
            for t, g in zip(total, torch.autograd.grad(loss(model, batch), parameters, allow_unused=True)):
                if g is not None:
                    t += g
    return total


def cosine(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> float:
    """Returns the cosine of the angle between two gradients, from -1 to 1 (Section 4.3).

    Raises Incomparable where it is not defined: one of them is zero or not finite.
    """

    def dot(x: Sequence[torch.Tensor], y: Sequence[torch.Tensor]) -> float:
        return math.fsum((p.flatten() @ q.flatten()).item() for p, q in zip(x, y))

    squares = dot(a, a) * dot(b, b)
    if not math.isfinite(squares) or squares <= 0:
        raise Incomparable("a gradient is zero" if squares == 0 else "a gradient is not finite")
    return max(-1.0, min(1.0, dot(a, b) / math.sqrt(squares)))


@contextlib.contextmanager
def untouched(model: torch.nn.Module) -> Iterator[None]:
    """Restores what a pass through the model changes: its buffers, such as the statistics of
    batch normalisation, and the random numbers of PyTorch, Python and NumPy."""
    import torch

    numpy = sys.modules.get("numpy")
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    cpu, python = torch.get_rng_state(), random.getstate()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numbers = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, saved in buffers:
                buffer.copy_(saved)
        torch.set_rng_state(cpu)
        random.setstate(python)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy:
            numpy.random.set_state(numbers)


class Autotune:
    """Sets the fidelity of a mount by the similarity of gradients (Sections 4.3 and 6.5).

    mount: what `pipefs.mount` returned. MNT/current is set to the highest of `scans` at once.
    model: is used in the mode (train or eval) in which it is. In a distributed training give
        `model.module`, and call `step` in one process of each node.
    dataset: makes the dataset of a view's directory, such as
        `lambda root: ImageFolder(os.path.join(root, "train"), plain)`, without augmentation.
        Random numbers are the same at each fidelity.
    loss: the mean loss of `loss(model, batch)`, where PyTorch has collated the batch.
    every, first: tune every so many steps, and for the first time after so many (`every` if it is
        not given). The paper tunes every 20 epochs and not in the first 5, when models are unstable.
    scans: the fidelities to choose from. The highest stands for all scans.
    mark: the least similarity that will do; 0.8 is the paper's.
    batches, batch_size, workers: how many samples are compared, others each time, and how many
        processes read them. It costs as much as training on them once for each of `scans`.
    against: the view with the gradient to compare with; by default that of the highest of `scans`.
    """

    def __init__(
        self, mount: Views, model: torch.nn.Module, dataset: Callable[[str], Dataset[Any]],
        loss: Callable[[Any, Any], torch.Tensor], *, every: int, first: int | None = None,
        scans: Sequence[int] = (1, 2, 5, 10), mark: float = 0.8, batches: int = 10, batch_size: int = 32,
        workers: int = 0, seed: int = 0, against: str = "",
    ) -> None:
        if not scans or every < 1 or batches < 1 or batch_size < 1:
            raise ValueError("scans, every, batches and batch_size have to be positive")
        self.mount, self.model, self.dataset, self.loss = mount, model, dataset, loss
        self.every, self.first = every, every if first is None else first
        self.scans, self.mark, self.against = sorted(scans), mark, against or f"scan{max(scans)}"
        self.batches, self.batch_size, self.workers, self.seed = batches, batch_size, workers, seed
        self.steps = 0
        self.history: list[Measurement] = []  #: of all measurements, the last one at the end
        self._datasets: dict[str, Dataset[Any]] = {}
        mount.fidelity(self.scans[-1])

    def step(self) -> Measurement | None:
        """Counts a step of the training, after the optimiser's; returns what it found if it tuned."""
        self.steps += 1
        since = self.steps - self.first
        return self.tune() if since >= 0 and since % self.every == 0 else None

    def tune(self) -> Measurement:
        """Measures now, and sets the lowest fidelity above the mark; all scans if it cannot compare."""
        start, similarity, problem = time.monotonic(), {}, ""
        try:
            similarity = self.similarity()
        except (Incomparable, OSError) as e:
            kind = "" if isinstance(e, Incomparable) else f"{type(e).__name__}: "
            problem = f"{kind}{e}".strip().splitlines()[-1]  # that of a worker begins with its traceback
        scans = next((k for k in self.scans if similarity.get(k, -1) >= self.mark), self.scans[-1])
        self.mount.fidelity(scans)
        found = Measurement(self.steps, similarity, scans, time.monotonic() - start, problem)
        self.history.append(found)
        if problem:
            log.warning("step %d: gradients cannot be compared, so that all scans are read: %s", self.steps, problem)
        else:
            log.info("step %d: scan%d; %s", self.steps, scans, ", ".join(f"scan{k} {v:.3f}" for k, v in similarity.items()))
        return found

    def similarity(self) -> dict[int, float]:
        """Returns the cosine of the gradient at each fidelity to that of full pictures, and sets
        nothing. Raises Incomparable, or OSError for a file that cannot be read."""
        views = {k: f"scan{k}" for k in self.scans}
        with untouched(self.model):
            full = self._gradient(self.against)
            found = {k: cosine(full if view == self.against else self._gradient(view), full) for k, view in views.items()}
        least = self.scans[0]
        if views[least] != self.against and found[least] > 1 - 1e-6:
            raise Incomparable(f"{views[least]} gives the gradient of {self.against}: either the samples are not JPEG, "
                               "or the datasets do not read below the directory that they are made for")
        return found

    def _gradient(self, view: str) -> list[torch.Tensor]:
        """The gradient on the samples that this step compares."""
        import torch
        from torch.utils.data import DataLoader, Subset

        for name in (self.against, view):
            if name not in self._datasets:
                self._datasets[name] = self.dataset(self.mount.path(name))
        data, n = self._datasets[view], len(self._datasets[self.against])
        if len(data) != n:
            raise Incomparable(f"{view} has {len(data)} samples, {self.against} has {n}")
        take = min(self.batches, n // self.batch_size) * self.batch_size
        if take == 0:
            raise Incomparable(f"{n} samples are less than a batch of {self.batch_size}")
        seed = self.seed + self.steps
        chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:take].tolist()
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        return gradient(self.model, self.loss, DataLoader(Subset(data, chosen), self.batch_size, num_workers=self.workers))
