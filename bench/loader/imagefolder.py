#!/usr/bin/env python3
"""Read one epoch of a directory the way a PyTorch training does, unmodified.

torchvision's ImageFolder (DatasetFolder with numpy.load for .npy files) and a
DataLoader with the standard ImageNet augmentation. Prints one line of JSON:
images, files, bytes, seconds, images_per_s, cpu_s.

With --serve it reads jobs from standard input instead, one a line, and answers
each with a line: importing PyTorch takes longer than many an epoch. A job is
    {"dir": "/mnt/scan5", "files": ["cat/1.jpg"], "seed": 1, "workers": 2, "batch": 16,
     "warm": 64, "compute_seconds": 0.224, "compute_batch": 400}
of which only "dir" is needed. "files" are read instead of what ImageFolder lists. With
"work", batches are uint8, (height, width, channels), and its transforms are done instead
of the usual augmentation: {"transforms": [{"name": "RandomResizedCrop", "args": {"size": 224}}]},
or none where the files are what a training gets.
The answer has samples, bytes, seconds, rate, cpu_seconds, disk_bytes and, where there
is an accelerator to emulate, utilisation and wait99_seconds; or only "error".
"""
import argparse
import json
import os
import resource
import sys
import time


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("directory", nargs="?")
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--serve", action="store_true", help="read jobs from standard input, one a line")
    args = ap.parse_args()
    if args.serve:
        return serve(args)
    if args.directory is None:
        ap.error("which directory?")
    row = epoch({"dir": args.directory, "seed": args.seed, "workers": args.workers, "batch": args.batch})
    print(json.dumps({
        "images": row["samples"],
        "files": row["files"],
        "bytes": row["bytes"],
        "seconds": round(row["seconds"], 3),
        "images_per_s": round(row["samples"] / row["seconds"], 1),
        "cpu_s": round(row["cpu_seconds"], 3),
    }))


def serve(args):
    # Whatever else prints does so to where messages go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(row):
        answers.write(json.dumps(row) + "\n")
        answers.flush()

    import PIL
    import torch
    import torchvision

    rehearse()
    answer({"name": f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}"})
    defaults = {"workers": args.workers, "batch": args.batch, "seed": args.seed}
    for line in sys.stdin:
        try:
            row = epoch({**defaults, **json.loads(line)}, die_with_parent)
        except Exception as error:  # what is wrong with one job is no reason to end
            row = {"error": message(error)}
        answer(row)


def rehearse():
    """Read an epoch of one picture: PyTorch fetches some of its code from the disk
    when it is first used, which would count as a job's."""
    import tempfile

    from PIL import Image

    with tempfile.TemporaryDirectory(prefix="pipefs-loader-") as directory:
        os.mkdir(os.path.join(directory, "class"))
        Image.new("RGB", (256, 256)).save(os.path.join(directory, "class", "1.jpg"))
        epoch({"dir": directory, "seed": 0, "workers": 1, "batch": 1}, die_with_parent)


def message(error):
    """One line. That of a worker comes at the end of its traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[-1].strip() if lines else type(error).__name__
    return text.removeprefix("RuntimeError: ")


def epoch(job, worker_init=None):
    import torch

    torch.manual_seed(job["seed"])
    torch.set_num_threads(1)
    work = job.get("work")
    dataset = listed(job["dir"], job["files"], work) if job.get("files") is not None else found(job["dir"], work)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=job["batch"], shuffle=True, num_workers=job["workers"], worker_init_fn=worker_init)
    compute = job.get("compute_seconds", 0) / (job.get("compute_batch") or 1)  # of one sample
    warm = job.get("warm", 0)

    cpu, disk = cpu_seconds(), disk_bytes()  # loading PyTorch is no part of the epoch
    start = time.monotonic()
    images, waits, computed = 0, [], 0.0
    since, before = start, 0  # the clock of the rate, and the images before it
    failed = None
    try:
        batches = iter(loader)
        while True:
            asked = time.monotonic()
            batch, _ = next(batches, (None, None))
            if batch is None:
                break
            assert batch.ndim == 4 and 3 in (batch.shape[1], batch.shape[3]), batch.shape
            images += len(batch)
            if compute:
                waits.append(time.monotonic() - asked)
                computed += compute * len(batch)
                time.sleep(compute * len(batch))
            # Where fewer are left than were needed to get warm, all of them count.
            if warm and before == 0 and images >= warm and len(dataset) - images >= warm:
                since, before, waits, computed = time.monotonic(), images, [], 0.0
    except Exception as error:
        failed = message(error)
        # It refers to itself and so to the workers, which the garbage collector
        # would take apart in the wrong order.
        error.__traceback__ = None
    end = time.monotonic()
    batches = loader = None  # the workers end, and their use of the processor is known
    if failed:
        raise RuntimeError(failed)
    row = {
        "samples": images,
        "files": len(dataset.samples),
        "seconds": end - start,
        "rate": (images - before) / (end - since),
        "cpu_seconds": cpu_seconds() - cpu,
        "disk_bytes": disk_bytes() - disk,
        "bytes": sum(os.stat(path).st_size for path, _ in dataset.samples),
    }
    if waits:
        row["utilisation"] = computed / (end - since)
        row["wait99_seconds"] = sorted(waits)[-(len(waits) // 100) - 1]
    return row


def found(directory, work=None):
    """What ImageFolder finds; DatasetFolder in a view of .npy files."""
    import numpy as np
    from torchvision import datasets

    if any(is_npy(name) for _, _, names in os.walk(directory) for name in names):
        return datasets.DatasetFolder(directory, np.load, extensions=(".npy",), transform=of_bytes(work) if work else of_array)
    return datasets.ImageFolder(directory, of_bytes(work) if work else of_picture())


def listed(directory, files, work=None):
    """An ImageFolder of these files, by names below the directory. The first
    directory of a name is its class; files without one are a class of their own.

    Every view has a file under the dataset's own name, cat/1.jpg, whatever it
    holds. Where a view lists .npy files, the content tells."""
    from torchvision import datasets

    # Two lines differ from ImageFolder: where the names come from, and that an
    # error names the file.
    class Listed(datasets.ImageFolder):
        def find_classes(self, _):
            names = sorted({name.partition("/")[0] if "/" in name else "" for name in files})
            return names, {name: i for i, name in enumerate(names)}

        def make_dataset(self, root, classes, *_, **__):
            return [(os.path.join(root, name), classes[name.partition("/")[0] if "/" in name else ""])
                    for name in files]

        def __getitem__(self, index):
            try:
                return super().__getitem__(index)
            except Exception as error:
                path = self.samples[index][0]
                text = " ".join(str(error).split())
                raise RuntimeError(text if path in text else f"{path}: {text}") from None

    if not files:
        raise ValueError(f"{directory}: an empty list of files")
    picture = of_bytes(work) if work else of_picture()
    folders = {os.path.join(directory, os.path.dirname(name)) for name in files}
    if any(is_npy(name) for folder in folders for name in os.listdir(folder)):
        return Listed(directory, picture if work else of_either(picture), loader=load_either)
    return Listed(directory, picture)


def is_npy(name):
    return name.endswith(".npy")


def of_picture():
    """The standard augmentation."""
    from torchvision import transforms

    return transforms.Compose([*augmentation(), transforms.ToTensor()])


def augmentation():
    from torchvision import transforms

    return [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]


def of_array(array):
    """The standard augmentation of what an .npy file holds: HWC, or CHW where the
    view has made tensors. A tensor of 224 by 224 has had its crop."""
    import numpy as np
    import torch
    from torchvision import transforms

    if array.dtype == np.uint16:
        array = array.astype(np.float32) / 65535
    elif array.dtype == np.bool_:
        array = array.astype(np.float32)
    planar = array.ndim == 3 and array.shape[0] <= 4 < array.shape[2]
    tensor = torch.from_numpy(array) if planar else transforms.ToTensor()(array)
    if tensor.dtype == torch.uint8:
        tensor = tensor.float() / 255
    if len(tensor) != 3:  # as convert("RGB") would: grey thrice, alpha gone
        tensor = tensor[:1].expand(3, -1, -1) if len(tensor) < 3 else tensor[:3]
    crop, flip = augmentation()
    if not planar or tensor.shape[1:] != (224, 224):
        tensor = crop(tensor)
    return flip(tensor)


class of_bytes:
    """The transforms of a job's work, and uint8 (height, width, channels)."""

    def __init__(self, work):
        from torchvision import transforms

        def made(name, args):
            if "interpolation" in args:
                args = {**args, "interpolation": transforms.InterpolationMode(args["interpolation"])}
            return getattr(transforms, name)(**args)

        self.transforms = [made(t["name"], t["args"]) for t in work["transforms"]]

    def __call__(self, loaded):
        import numpy as np
        import torch
        from PIL import Image

        if isinstance(loaded, np.ndarray):
            if loaded.dtype != np.uint8 or loaded.ndim != 3:
                return of_array(loaded)
            if self.transforms:
                loaded = Image.fromarray(loaded)
        for transform in self.transforms:
            loaded = transform(loaded)
        return torch.from_numpy(loaded if isinstance(loaded, np.ndarray) else np.array(loaded))


class of_either:
    """of_array or of_picture, by what was loaded."""

    def __init__(self, picture):
        self.picture = picture

    def __call__(self, loaded):
        import numpy as np

        return of_array(loaded) if isinstance(loaded, np.ndarray) else self.picture(loaded)


def load_either(path):
    """numpy.load for an .npy file, and torchvision's pil_loader for others: the
    first block of the file is read once, and looked at."""
    import numpy as np
    from PIL import Image

    with open(path, "rb") as f:
        if f.peek(6).startswith(b"\x93NUMPY"):
            return np.load(f)
        return Image.open(f).convert("RGB")


def cpu_seconds():
    """Of this process and of its workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def disk_bytes():
    """What this process and its workers that have ended had fetched from a disk."""
    try:
        with open("/proc/self/io") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("read_bytes:"))
    except OSError:  # not every kernel counts
        return 0


def die_with_parent(_):
    """A worker that waits for a mount would not see that nobody waits for it."""
    import ctypes
    import signal

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
