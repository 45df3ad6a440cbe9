#!/usr/bin/env python3
"""Measures pipefs_gpu on a GPU, and beside it what else brings pictures to one.

    bench_gpu.py [--source DIR] [--pipefs bin/pipefs]   prints one table in Markdown

Needs PyTorch, NumPy and Pillow; the lines for what is not there say so. The pictures are
made from those in DIR, or are synthetic: soft noise, which compresses as photographs do.
"""

import argparse
import ctypes
import io
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import pipefs_gpu
import pipefs_gpu_abi
import pipefs_gpu_l3

MODES = ("v1", "fast", "dense")


# ------------------------------------------------------------------------------ pictures


def synthetic(rng, width, height):
    """A picture (H, W, 3) of uint8: soft shapes and the noise of a sensor."""
    from PIL import Image

    coarse = rng.integers(0, 256, (height // 64 + 2, width // 64 + 2, 3), np.uint8)
    soft = np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC), np.float32)
    return np.clip(soft + rng.normal(0, 2.5, soft.shape), 0, 255).astype(np.uint8)


def pictures(options):
    """So many pictures of the size that is asked for."""
    from PIL import Image, ImageOps

    rng = np.random.default_rng(1)
    found = sorted(p for p in pathlib.Path(options.source or "/nonexistent").rglob("*") if p.suffix.lower() in (".png", ".jpg", ".jpeg"))
    made = []
    for path in found[:options.distinct]:
        with Image.open(path) as f:
            made.append(np.asarray(ImageOps.fit(f.convert("RGB"), (options.width, options.height))))
    while len(made) < min(options.distinct, options.pictures):
        made.append(synthetic(rng, options.width, options.height))
    return made, bool(found)


def png(pixels):
    from PIL import Image

    f = io.BytesIO()
    Image.fromarray(pixels).save(f, "png")
    return f.getvalue()


def jpeg(pixels):
    from PIL import Image

    f = io.BytesIO()
    Image.fromarray(pixels).save(f, "jpeg", quality=95)
    return f.getvalue()


def l3(program, pngs, mode):
    """L3 files of PNG files."""
    made = []
    with tempfile.TemporaryDirectory() as d:
        for b in pngs:
            source, result = os.path.join(d, "a.png"), os.path.join(d, "a.l3")
            pathlib.Path(source).write_bytes(b)
            subprocess.run([program, "convert", "--l3-mode", mode, source, result], check=True)
            made.append(pathlib.Path(result).read_bytes())
    return made


def repeated(files, n):
    """n files; those that are the same are still copied each for itself."""
    return [files[i % len(files)] for i in range(n)]


# ------------------------------------------------------------------------------ measuring


class Table:
    """Lines of Markdown, printed at the end."""

    def __init__(self, options):
        self.options = options
        self.lines = ["| | pictures/s | GB/s of pixels | |", "|---|--:|--:|---|"]

    def rate(self, what, per_second, note="", size=None):
        width, height = size or (self.options.width, self.options.height)
        self.lines.append(f"| {what} | {per_second:,.0f} | {per_second * width * height * 3 / 1e9:.2f} | {note} |")

    def missing(self, what, why):
        self.lines.append(f"| {what} | – | – | {why} |")

    def __str__(self):
        return "\n".join(self.lines)


def timed(f, seconds, synchronise=lambda: None):
    """Calls of f a second, for so many seconds after one to warm up."""
    f()
    synchronise()
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or n == 0:
        f()
        n += 1
    synchronise()
    return n / (time.perf_counter() - began)


def decode_png(b):
    """In a process of its own."""
    from PIL import Image

    with Image.open(io.BytesIO(b)) as f:
        return np.asarray(f).shape


def png_rate(pngs, options):
    """Pictures a second of Pillow on all cores."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores) as pool:
        batch = repeated(pngs, max(options.pictures, cores))
        per_second = timed(lambda: list(pool.map(decode_png, batch, chunksize=max(1, len(batch) // (4 * cores)))), options.seconds)
    return per_second * len(batch), cores


class Kernels:
    """A batch on the GPU that is decoded again and again, to two places in turn."""

    def __init__(self, torch, decoder, items, dtype="uint8", layout="HWC"):
        f = decoder._framework
        self.torch, self.decoder, self.stream = torch, decoder, f.stream()
        files = pipefs_gpu.pack(items)
        parsed = [pipefs_gpu.parse(b) for b in items]
        self.functions = decoder._load({p.entry for p in parsed}, ())
        request = decoder._request(None, layout, dtype, None, None, None)
        self.source = files.data.to(f.device)
        scratch = f.work(sum(sum(p.scratch or [0]) for p in parsed), self.stream)
        self.keep, self.batches = [scratch], []
        for _ in range(2):
            _, n = decoder._places(parsed, request)
            batch = f.typed(f.output(n, self.stream), 0, dtype, (len(parsed), *decoder._shape(parsed[0], request)))
            targets = [decoder._target(p, part, request, None, None) for p, part in zip(parsed, batch)]
            sources = [f.address(self.source) + at for at, _ in files.places]
            records, patches, self.launches = pipefs_gpu_l3.make_tables(parsed, sources, targets, f.address(scratch))
            tables = torch.frombuffer(bytearray(records + patches + b"\xff" * (4 * len(parsed))), dtype=torch.uint8).to(f.device)
            self.keep += [batch, tables]
            self.batches.append((f.address(tables), len(records), len(patches)))
        torch.cuda.synchronize()

    def decode(self, i):
        at, records, patches = self.batches[i % 2]
        for launch in self.launches:
            u64 = ctypes.c_uint64
            parameters = (u64(at), u64(at + records + pipefs_gpu_abi.PATCH_LEN * launch.first), ctypes.c_uint32(launch.count), u64(at + records + patches))
            self.decoder._driver.launch(self.functions[launch.entry], launch.blocks, parameters, self.stream.cuda_stream)

    def seconds(self, rounds=20):
        """The median time of a batch by the GPU's own clock."""
        for i in range(3):
            self.decode(i)
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
        events[0].record(self.stream)
        for i, event in enumerate(events[1:]):
            self.decode(i)
            event.record(self.stream)
        self.stream.synchronize()
        return float(np.median([a.elapsed_time(b) for a, b in zip(events, events[1:])])) / 1e3


def upload_rate(torch, n=1 << 28):
    """Bytes a second from pinned memory to the GPU."""
    host, device = torch.empty(n, dtype=torch.uint8, pin_memory=True), torch.empty(n, dtype=torch.uint8, device="cuda")
    return n * timed(lambda: device.copy_(host, non_blocking=True), 0.5, torch.cuda.synchronize)


def end_to_end(torch, decoder, files, seconds, **options):
    """Batches a second from pinned files to a tensor, with as many under way as the decoder has slots."""
    waiting = []

    def step():
        waiting.append(decoder.submit(files, **options))
        if len(waiting) == len(decoder._slots):
            waiting.pop(0).result()

    per_second = timed(step, seconds, torch.cuda.synchronize)
    for pending in waiting:
        pending.result()
    return per_second


def nvjpeg_rate(torch, jpegs, options):
    """Pictures a second of nvJPEG as torchvision calls it."""
    import torchvision

    data = [torch.frombuffer(bytearray(b), dtype=torch.uint8) for b in repeated(jpegs, options.pictures)]
    try:
        torchvision.io.decode_jpeg(data[:2], device="cuda")
        step = lambda: torchvision.io.decode_jpeg(data, device="cuda")  # noqa: E731
    except (TypeError, RuntimeError, AttributeError):  # before torchvision 0.20 it takes one at a time
        step = lambda: [torchvision.io.decode_jpeg(d, device="cuda") for d in data]  # noqa: E731
    return timed(step, options.seconds, torch.cuda.synchronize) * len(data)


def training(torch, batches, labels, seconds):
    """Steps a second of ResNet-18 in bfloat16, on a stream that goes before the decoder's."""
    import torchvision

    model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    stream = torch.cuda.Stream(priority=-1)

    def step():
        with torch.cuda.stream(stream):
            images = next(batches)
            with torch.autocast("cuda", torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    torch.cuda.synchronize()
    for _ in range(3):
        step()
    return timed(step, seconds, torch.cuda.synchronize)


# -------------------------------------------------------------------------------- lines


def gpu_lines(table, torch, pngs, small, program, options):
    """All that needs a GPU and L3 files."""
    decoder = pipefs_gpu.Decoder(options.gpu, options.ptx, max_bytes=1 << 36)
    raw = options.width * options.height * 3
    upload = upload_rate(torch)
    for mode in MODES:
        items = repeated(l3(program, pngs, mode), options.pictures)
        ratio = raw * len(items) / sum(map(len, items))
        kernels = Kernels(torch, decoder, items)
        table.rate(f"L3 {mode}, kernels alone", len(items) / kernels.seconds(), f"{len(items)} pictures at once, {ratio:.2f} times smaller than raw")
        del kernels
        files = pipefs_gpu.pack(items).pin_memory()
        torch.cuda.empty_cache()
        table.rate(f"L3 {mode}, pinned files to tensor", end_to_end(torch, decoder, files, options.seconds) * len(items),
                   f"the bus would take {upload * ratio / 1e9:.1f} GB/s of pixels: {upload / 1e9:.1f} GB/s, {ratio:.2f} times")
    for mode in MODES[1:]:
        train_lines(table, torch, decoder, repeated(l3(program, small, mode), options.pictures), mode, options)


def train_lines(table, torch, decoder, items, mode, options):
    """A training with and without decoding beside it."""
    wanted = {"layout": "CHW", "dtype": "float16", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    labels = torch.randint(0, 1000, (len(items),), device="cuda")
    files = pipefs_gpu.pack(items).pin_memory()
    resident = decoder.decode(files, **wanted)

    def again():
        while True:
            yield resident

    def endless():
        while True:
            yield files

    for what, batches in (("without decoding", again()), (f"L3 {mode} decoded beside it", decoder.batches(endless(), **wanted))):
        table.rate(f"ResNet-18, bf16, {what}", training(torch, batches, labels, options.seconds) * len(items), f"{len(items)} pictures of 224×224 a step", (224, 224))


def measure(options):
    """The table."""
    table = Table(options)
    made, real = pictures(options)
    pngs = [png(p) for p in made]
    per_second, cores = png_rate(pngs, options)
    table.rate(f"PNG, Pillow, {cores} cores", per_second, f"{'photographs' if real else 'synthetic pictures'} of {options.width}×{options.height}")
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        table.missing("L3, JPEG and training on a GPU", "no PyTorch" if torch is None else "PyTorch sees no GPU")
        return table
    program = options.pipefs or shutil.which("pipefs")
    for what, lines in (
        ("JPEG q95, nvJPEG", lambda: table.rate("JPEG q95, nvJPEG", nvjpeg_rate(torch, [jpeg(p) for p in made], options), "lossy")),
        ("L3 and training", lambda: gpu_lines(table, torch, pngs, [png(p[:224, :224]) for p in made], program, options)),
    ):
        if program is None and "L3" in what:
            table.missing(what, "no program pipefs to make L3 files: see --pipefs")
            continue
        try:
            lines()
        except (ImportError, RuntimeError, AttributeError, pipefs_gpu.Error) as e:
            table.missing(what, " ".join(str(e).split())[:200])
    table.lines.append(f"\n{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {cores} cores")
    return table


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--source", metavar="DIR", help="pictures to use")
    p.add_argument("--pipefs", metavar="PROGRAM", help="what makes L3 files (default: the one on the path)")
    p.add_argument("--ptx", help="the program for the GPU (default: see pipefs_gpu.find_ptx)")
    p.add_argument("--gpu", type=int, default=None, help="which GPU (default: the current one)")
    p.add_argument("--pictures", type=int, default=256, help="of a batch (default 256)")
    p.add_argument("--distinct", type=int, default=16, help="of these, different ones (default 16)")
    p.add_argument("--width", type=int, default=1920)
    p.add_argument("--height", type=int, default=1080)
    p.add_argument("--seconds", type=float, default=3, help="that each line is measured for (default 3)")
    print(measure(p.parse_args()))


if __name__ == "__main__":
    main()
