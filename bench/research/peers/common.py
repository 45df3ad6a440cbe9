"""What all peers share: the options, the augmentation, ImageFolder's epoch, mounts.

A peer is a module peer_NAME.py. It has

    ROWS                            what it is measured as, a Row each
    prepare(src, dst, row, options) writes its format below dst, where it has one
    loader(where, row, options, seed)
                                    an iterable of (images, labels), a batch each, one
                                    epoch each time that it is iterated; options.kind
                                    says what images are. Making it is not timed
    mount(src, dst, mnt, row, options)
                                    where it is a file system: a Mount of what was
                                    prepared; the loader is then ImageFolder's
    versions()                      by name, of what it runs on

and imports other people's packages within functions only: run.py reads all modules
where none of them is installed.
"""
import dataclasses
import os
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SIDE = 224
SHAPES = {"uint8": [(3, SIDE, SIDE), (SIDE, SIDE, 3)], "float32": [(3, SIDE, SIDE)]}
KINDS = list(SHAPES)  # of batches: each is a table of its own
CONTROL = "imagefolder"
EXTENSIONS = (".jpg", ".jpeg", ".png")  # of the pictures that are compared


@dataclasses.dataclass
class Row:
    """A line of the table."""
    id: str
    name: str
    prepared: bool = True  # False: reads the dataset's own files
    same: bool = True  # the pixels that are cropped are those that Pillow decodes
    note: str = ""
    resize: str = "Pillow, bilinear"  # what scales the crop
    control: str = CONTROL  # the row that it is compared with
    store: str = ""  # rows with the same one read what was prepared once; otherwise the id
    named: bool = False  # measured only where it is asked for

    def __post_init__(self):
        self.store = self.store or self.id


@dataclasses.dataclass
class Options:
    workers: int = 2
    batch: int = 64
    kind: str = KINDS[0]
    pipefs: str = "bin/pipefs"
    venv: str = ""  # the peer's own environment, below which its commands are
    work: str = ""  # for files that may be removed after the run
    recipe: str = ""  # a step of RECIPES after the crop


class Failed(Exception):
    """What a person has to know; no traceback helps."""


def samples(src):
    """The pictures of an ImageFolder tree, with their labels, and the classes."""
    classes = sorted(e.name for e in os.scandir(src) if e.is_dir())
    found = []
    for label, name in enumerate(classes):
        for directory, _, files in sorted(os.walk(os.path.join(src, name), followlinks=True)):
            found += [(os.path.join(directory, f), label) for f in sorted(files) if f.lower().endswith(EXTENSIONS)]
    return found, classes


# What torchvision's reference scripts do after the crop, by the name of pipefs's step.
RECIPES = {
    "": lambda T: [],
    "trivialaugment": lambda T: [T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR)],
    "randaug2_9": lambda T: [T.RandAugment(2, 9, interpolation=T.InterpolationMode.BILINEAR)],
    "autoaugment": lambda T: [T.AutoAugment(interpolation=T.InterpolationMode.BILINEAR)],
    "colorjitter40_40_40_10": lambda T: [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
}


def standard(options, random=True):
    """The standard augmentation of Pillow's pictures, or what is usual for validation."""
    from torchvision import transforms
    crop = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip()] + RECIPES[options.recipe](transforms) if random else [
        transforms.Resize(256), transforms.CenterCrop(SIDE)]
    return transforms.Compose(crop + [transforms.PILToTensor() if options.kind == "uint8" else transforms.ToTensor()])


def batches(dataset, options, seed):
    """PyTorch's DataLoader, as in any training script. Its workers stay for all epochs."""
    import torch
    torch.manual_seed(seed)
    return torch.utils.data.DataLoader(
        dataset, batch_size=options.batch, shuffle=True, num_workers=options.workers, persistent_workers=True)


def imagefolder(where, options, seed, random=True):
    from torchvision import datasets
    return batches(datasets.ImageFolder(where, standard(options, random)), options, seed)


def torch_versions():
    import numpy
    import PIL
    import torch
    import torchvision
    return {"torch": torch.__version__, "torchvision": torchvision.__version__, "Pillow": PIL.__version__,
            "numpy": numpy.__version__}


def run(command, env=None):
    """Runs a command to its end; what it printed is told when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=env, check=False)
    except OSError as e:
        raise Failed(f"{command[0]} cannot be run: {e.strerror}") from e
    if done.returncode:
        raise Failed(f"{' '.join(command[:3])} …: exit code {done.returncode}: {last_lines(done.stdout)}")
    return done.stdout


def last_lines(text, lines=3):
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(kept[-lines:]) or "it printed nothing"


def tree_bytes(path):
    """Of the disk, by blocks, so that half-empty ones count whole."""
    total = 0
    for directory, _, files in os.walk(path):
        for name in files:
            total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


class Mount:
    """A FUSE file system with the process behind it."""

    def __init__(self, mnt, directory, pid, process=None, unmount=None, env=None):
        self.mnt, self.directory, self.pid, self.process = mnt, directory, pid, process
        self.unmount, self.env = unmount or ["fusermount3", "-u", mnt], env

    def cpu(self):
        return process_cpu(self.pid)

    def close(self):
        """Unmounts, and ends a process that does not end by itself."""
        subprocess.run(self.unmount, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env, check=False)
        if os.path.ismount(self.mnt):
            subprocess.run(["fusermount3", "-uz", self.mnt], check=False)
        if self.process:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def mount_in_foreground(command, mnt, log, seconds=60):
    """Starts a file system that stays in the foreground, and waits until it is there."""
    os.makedirs(mnt, exist_ok=True)
    # Ctrl-C is for run.py, which unmounts. What epoch.py mounts ends with its session.
    apart = os.getsid(0) != os.getpid()
    with open(log, "ab") as to:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=apart)
        except OSError as e:
            raise Failed(f"{command[0]} cannot be run: {e.strerror}") from e
    mount = Mount(mnt, mnt, process.pid, process)
    try:
        end = time.monotonic() + seconds
        while not os.path.ismount(mnt):
            if process.poll() is not None or time.monotonic() > end:
                with open(log, encoding="utf-8", errors="replace") as f:
                    raise Failed(f"{os.path.basename(command[0])} did not mount: {last_lines(f.read())}")
            time.sleep(0.01)
    except BaseException:
        if process.poll() is None:
            process.terminate()
        mount.close()
        raise
    return mount


def unmount_below(directory):
    """Unmounts what an interrupted run has left there; the processes behind it then end."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as f:
        found = [line.split(" ")[1].encode("utf-8", "surrogateescape").decode("unicode_escape") for line in f]
    for mnt in reversed(found):
        if mnt.startswith(os.path.abspath(directory) + "/"):
            subprocess.run(["fusermount3", "-uz", mnt], check=False)


def process_cpu(pid):
    """Seconds, user and system, of a process and of its children that have ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError as e:
        raise Failed(f"process {pid} has ended: {e.strerror}") from e
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peers():
    """The modules, by name, the control first."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = sorted(f[5:-3] for f in os.listdir(here) if f.startswith("peer_") and f.endswith(".py"))
    order = ["imagefolder", "pipefs", "squashfuse", "ratarmount"]  # control, us, file systems, formats
    names.sort(key=lambda n: (order.index(n) if n in order else len(order), n))
    if here not in sys.path:
        sys.path.insert(0, here)
    return {name: __import__("peer_" + name) for name in names}
