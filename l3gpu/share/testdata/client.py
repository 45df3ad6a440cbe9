"""A process that trains, for mount_test.go: a client of a real mount.

Its framework is PyTorch on the CPU, since the memory of the libcuda used here is that
of the host; everything else is what runs on a GPU. Each line of its input is a command,
each line of its output an answer.
"""

import ctypes
import json
import os
import signal
import sys

import numpy as np
import pipefs_gpu
import pipefs_gpu_cuda
import pipefs_gpu_ipc
import pipefs_gpu_shared as shared
import torch


class Framework(pipefs_gpu_cuda.Torch):
    """PyTorch, for which memory of fakecuda is memory of a GPU."""

    def __init__(self):
        self.torch, self.device, self.index = torch, torch.device("cpu"), 0
        self.queued = []  # what a GPU does later, on its stream

    def stream(self):
        return self

    def foreign(self, address, n):
        return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_ubyte * n).from_address(address)))

    def output(self, n, stream):
        return torch.full((n,), 0xEE, dtype=torch.uint8)

    def duplicate(self, array, from_, begin, n, stream):
        self.queued.append(lambda: array[:n].copy_(from_[begin:begin + n]))

    def widen(self, result, stored, begin, depth, stream):
        def copy():
            n = result.numel() * depth // 8
            samples = stored[begin:begin + n].numpy().view(f"<u{depth // 8}").astype(np.int32)
            result.copy_(torch.from_numpy(samples).view(result.shape))

        self.queued.append(copy)

    def record(self, stream):
        return len(self.queued)

    def done(self, event):
        return not self.queued

    def wait(self, event):
        for f in self.queued:
            f()
        self.queued = []

    finish = wait

    def follow_caller(self, array, stream):
        pass

    def hand_over(self, array, event):
        assert not self.queued


def fake_open(library, device, gpu):
    index = pipefs_gpu_ipc.Driver.index_of(gpu["uuid"])
    assert index == 0, gpu
    return Framework(), pipefs_gpu_ipc.Driver(index)


shared._open = fake_open
MNT = os.environ["PIPEFS_TEST_MNT"]


def expected(name, layout, dtype, mean, std):
    """What the npy view has."""
    a = np.load(os.path.join(MNT, "npy", name + ".npy"))
    a = a if a.ndim == 3 else a[:, :, None]
    if dtype == "float32":
        top = 65535 if a.dtype == np.uint16 else 255
        n = a.shape[2]
        mean, std = np.broadcast_to(mean, n), np.broadcast_to(std, n)
        scale = np.array([1 / (top * s) for s in std], np.float32)
        a = a.astype(np.float32) * scale + np.array([-m / s for m, s in zip(mean, std)], np.float32)
    elif dtype == "int32":
        a = a.astype(np.int32)
    return a if layout == "HWC" else a.transpose(2, 0, 1)


def compare(tensors, names, *how):
    assert len(tensors) == len(names)
    for t, name in zip(tensors, names):
        want = expected(name, *how)
        got = t.numpy()
        if want.dtype == np.uint16 and t.dtype == torch.int32:  # a PyTorch without uint16
            want = want.astype(np.int32)
        assert got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want), (name, how, got.dtype, want.dtype)


def check(names):
    """Everything there is, against the npy view."""
    paths = [os.path.join(MNT, "l3", n + ".l3") for n in names]
    with shared.SharedDecoder(MNT) as d:
        for layout in ("HWC", "CHW"):
            for dtype, mean, std in ((None, 0, 1), ("float32", 0, 1), (torch.float32, .5, (.25,)), ("int32", 0, 1)):
                numbers = {"mean": mean, "std": std} if dtype not in (None, "int32") else {}
                kind = "float32" if dtype is torch.float32 else dtype
                result = d.decode(paths, layout=layout, dtype=dtype, **numbers)
                compare(result, names, layout, kind, mean, std)
        one = d.decode([paths[0]] * 3, layout="CHW")
        assert isinstance(one, torch.Tensor) and one.is_contiguous(), one
        compare(one, [names[0]] * 3, "CHW", None, 0, 1)
        # More batches than slots, given up and leased in between; and one that is not there.
        for i in range(3 * d.slots):
            d.submit(paths)
            with d.lease([paths[0]], errors="none") as images:
                compare(images, [names[0]], "HWC", None, 0, 1)
        before = d.decode([paths[0]])
        loader = [([p], i) for i, p in enumerate(paths * 4)]
        for copy in (True, False):
            for i, (images, label) in enumerate(d.batches(loader, dtype="float32", copy=copy)):
                assert label == i
                compare(images, [names[i % len(names)]], "HWC", "float32", 0, 1)
            assert i == len(loader) - 1
        for alone in d.batches([[paths[0]]] * 2):
            compare(alone, [names[0]], "HWC", None, 0, 1)
        compare(before, [names[0]], "HWC", None, 0, 1)  # what was copied stays
        assert d.decode([]) == []
        missing = os.path.join(MNT, "l3", "none.l3")
        outside = "/etc/hostname"
        try:
            d.decode([paths[0], missing, outside])
            raise AssertionError("nothing was missing")
        except shared.BatchError as e:
            assert sorted(e.errors) == [1, 2] and isinstance(e.errors[1], pipefs_gpu.Unreadable) and "none.l3" in str(e), e
            compare(e.pictures[:1], names[:1], "HWC", None, 0, 1)
        assert d.decode([missing, paths[0]], errors="none")[0] is None
        for wrong in ({"layout": "WHC"}, {"dtype": "float64"}, {"mean": 1}, {"errors": "ignore"}):
            try:
                d.decode(paths, **wrong)
                raise AssertionError(wrong)
            except ValueError:
                pass
        try:
            d.decode([b"bytes"])
            raise AssertionError("bytes were taken")
        except TypeError:
            pass
    with shared.SharedDecoder(os.path.join(MNT, "l3")) as d:  # the place was given back
        compare(d.decode([paths[0]]), names[:1], "HWC", None, 0, 1)


def dataset(names):
    """The ten lines of the documentation, as far as they need no GPU."""
    data = shared.PathDataset(os.path.join(MNT, "l3"))
    loader = torch.utils.data.DataLoader(data, batch_size=2, collate_fn=shared.collate)
    seen = 0
    with shared.decoder(MNT) as d:
        assert d.shared
        for images, labels in d.batches(loader, layout="CHW", dtype=torch.float32, mean=.5, std=.25):
            for t in images:
                path, number = data.samples[seen]
                assert labels[seen % 2] == number
                name = os.path.relpath(path, os.path.join(MNT, "l3"))[:-3]
                compare([t], [name], "CHW", "float32", .5, .25)
                seen += 1
    assert seen == len(data), seen


def main():
    kept = {}
    for line in sys.stdin:
        command, *names = line.split()
        paths = [os.path.join(MNT, "l3", n + ".l3") for n in names]
        try:
            if command == "check":
                check(names)
            elif command == "dataset":
                dataset(names)
            elif command == "open":
                kept["decoder"] = shared.SharedDecoder(MNT)
            elif command == "hold":  # a batch, and never to release it
                kept.setdefault("leases", []).append(kept["decoder"].submit(paths).lease())
            elif command == "spoil":  # what a dying process may still do to its memory
                for lease in kept["leases"]:
                    lease.pictures.fill_(7)
            elif command == "decode":
                compare(kept["decoder"].decode(paths), names, "HWC", None, 0, 1)
            elif command == "close":
                kept.pop("decoder").close()
            elif command == "twice":  # fakecuda is strict
                d = kept["decoder"]._driver
                handle, address, _ = kept["decoder"]._memory[0]
                for f in (lambda: d.open_memory(handle), lambda: d.close_memory(address + 4096), lambda: d.open_memory(bytes(64))):
                    try:
                        f()
                        raise AssertionError("that was taken")
                    except pipefs_gpu.DeviceError:
                        pass
            elif command == "fallback":
                with shared.decoder(MNT) as d:
                    print(json.dumps({"shared": d.shared}), flush=True)
                    continue
            else:
                raise AssertionError(command)
        except pipefs_gpu.Error as e:
            print(json.dumps({"error": type(e).__name__, "says": str(e)}), flush=True)
            continue
        print("{}", flush=True)
    signal.alarm(20)


main()
