"""Judges that a random view is the same for all who read it: check_ranks.py DATASET RANKS WORKERS

Two trainings of RANKS processes with WORKERS persistent workers each read one mount at once,
in different epochs. Nothing keeps the processes in step. Then the daemon is killed in the
middle of an epoch, and a training with other workers goes on; another one uses a mount of
its own. The daemon of a supervised mount is killed, too, which the training does not notice.
"""

import errno
import hashlib
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings

import torch
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder

import pipefs

SEED, VIEWS = 7, ["rrc48scale20to100-hflip-npy"] * 2  # two draws of each sample
FAILED, DISCONNECTED = 1, 3  # codes with which a rank ends
GONE = (errno.ENOTCONN, errno.ECONNABORTED)  # without a daemon; the latter where it dies during a request
dataset, RANKS, WORKERS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than the machine has cores


def digest(*draws):
    return hashlib.sha256(b"".join(draw.tobytes() for draw in draws)).hexdigest()


def train(m, epochs, rank, ranks, workers, out):
    """What one rank does. It writes a line for each picture that it gets: epoch, number, digest."""
    # The number of a sample takes the place of its class, so that a rank knows what it got.
    data = pipefs.RandomView(m, VIEWS, [(path, i) for i, path in enumerate(SAMPLES)], SEED)
    sampler = DistributedSampler(data, ranks, rank, shuffle=True, seed=1)
    loader = DataLoader(data, 2, sampler=sampler, num_workers=workers, persistent_workers=True)
    for epoch in epochs:
        data.set_epoch(epoch)
        sampler.set_epoch(epoch)
        got = []
        for draws, numbers in loader:
            for one, other, number in zip(*draws, numbers):
                got.append(int(number))
                out.write(f"{epoch} {number} {digest(one.numpy(), other.numpy())}\n")
            out.flush()
        assert got == list(sampler), f"rank {rank} of {ranks}, epoch {epoch}: {got} instead of {list(sampler)}"


class Training:
    """The ranks of a training, each a process."""

    def __init__(self, m, epochs, ranks, workers):
        self.epochs, self.ranks = epochs, ranks
        self.files = [tempfile.NamedTemporaryFile("w+") for _ in range(ranks)]
        self.processes = []
        for rank, out in enumerate(self.files):
            pid = os.fork()
            if pid == 0:
                code = FAILED
                try:
                    train(m, epochs, rank, ranks, workers, out)
                    code = 0
                except OSError as e:
                    code = DISCONNECTED if any(f"[Errno {n}]" in str(e) for n in GONE) else FAILED
                    if code == FAILED:
                        traceback.print_exc()
                except BaseException:
                    traceback.print_exc()
                sys.stderr.flush()
                os._exit(code)
            self.processes.append(pid)

    def wait(self):
        """The codes with which the ranks ended."""
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in self.processes]

    def read(self):
        """What the ranks got so far: epoch, number of the sample, digest."""
        return [row for rows in self.read_by_rank() for row in rows]

    def read_by_rank(self):
        """The same, a list for each rank."""
        ranks = []
        for f in self.files:
            with open(f.name, encoding="ascii") as mine:  # f has one position for this process and the rank
                lines = mine.read().split("\n")[:-1]  # the last one may be half written
            ranks.append([(int(e), int(i), digest) for e, i, digest in map(str.split, lines)])
        return ranks

    def judge(self, what):
        """Every rank ended well, each sample was read in each epoch, and had the bytes of WANT."""
        assert self.wait() == [0] * self.ranks, what
        rows = self.read()
        padded = -(-len(SAMPLES) // self.ranks) * self.ranks
        for epoch in self.epochs:
            numbers = [i for e, i, _ in rows if e == epoch]
            assert len(numbers) == padded and set(numbers) == set(range(len(SAMPLES))), (what, epoch, len(numbers))
        compare(what, rows)


def compare(what, rows):
    """Bytes that are those of WANT."""
    for epoch, i, digest in rows:
        assert digest == WANT[epoch][i], f"{what}: other bytes of {SAMPLES[i]} in epoch {epoch}"


def digests(m, epoch):
    """Digests of all pictures of an epoch, read without any loader."""
    data = pipefs.RandomView(m, VIEWS, [(path, 0) for path in SAMPLES], SEED)
    data.set_epoch(epoch)
    return [digest(*data[i][0]) for i in range(len(data))]


def kill(m, training, read):
    """Kills the daemon when the training has read that many pictures, and each rank one. Returns its process id."""
    deadline = time.monotonic() + 120
    while sum(map(len, ranks := training.read_by_rank())) < read or not all(ranks):
        assert time.monotonic() < deadline, "the training does not move"
        time.sleep(0.01)
    pid = m.stats()["pid"]
    os.kill(pid, signal.SIGKILL)
    return pid


with pipefs.mount(dataset, supervise=False) as m:
    top = m.path("original")
    SAMPLES = [os.path.relpath(path, top) for path, _ in ImageFolder(top).samples]
    assert len(SAMPLES) % RANKS, "the sampler would not pad"
    with pipefs.mount(dataset, cache="64MB") as other:  # a daemon that the trainings do not use
        assert other.mountpoint != m.mountpoint
        WANT = {epoch: digests(other, epoch) for epoch in range(6)}
    for i, path in enumerate(SAMPLES):
        assert len({WANT[epoch][i] for epoch in WANT}) == len(WANT), f"{path} is the same in two epochs"

    first, second = Training(m, [0, 1, 2], RANKS, WORKERS), Training(m, [5, 1, 0], RANKS, WORKERS)
    first.judge("one training")
    second.judge("another one at once")

    # The daemon is killed in the middle of an epoch.
    killed = Training(m, [n % 6 for n in range(10**6)], RANKS, WORKERS)
    kill(m, killed, len(SAMPLES) * 3 // 2)
    codes = killed.wait()
    assert codes == [DISCONNECTED] * RANKS, f"without a daemon the ranks ended with {codes}"
    compare("a training whose daemon was killed", killed.read())

with pipefs.mount(dataset) as again, pipefs.mount(dataset, workers=1) as apart:
    assert again.mountpoint != apart.mountpoint
    resumed, small = Training(again, [1, 2], RANKS, WORKERS + 1), Training(apart, [1, 2], 3, 1)
    resumed.judge("a training that goes on after that")
    small.judge("another mount, with other ranks and workers")

with pipefs.mount(dataset) as m:
    kept = Training(m, range(6), RANKS, WORKERS)
    dead = [kill(m, kept, len(SAMPLES) * n) for n in (1, 3)]
    kept.judge("a training whose daemon was killed twice")
    assert len({*dead, m.stats()["pid"]}) == 3, "it was one daemon"
