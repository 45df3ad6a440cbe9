"""Judges pipefs_gpu by what pipefs' own decoder made of the same files.

PIPEFS_TEST_GPU is `real`, or the file descriptor of the machine of fake_gpu.py;
PIPEFS_TEST_CASES is the directory that cases_test.go wrote.
"""

import contextlib
import ctypes
import gzip
import json
import logging
import os
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zlib

import fake_frameworks
import numpy as np
import pipefs_gpu
import pipefs_gpu_abi
import pipefs_gpu_cuda
import pipefs_gpu_files
import pipefs_gpu_l3
import torch

GPU, CASES = os.environ["PIPEFS_TEST_GPU"], os.environ["PIPEFS_TEST_CASES"]
REAL = GPU == "real"
MEAN, STD = (0.485, 0.456, 0.406, 0.5), (0.229, 0.224, 0.225, 0.25)
TORCH = pipefs_gpu_cuda.Torch

if not REAL:
    import fake_gpu

    MACHINE = fake_gpu.Machine(int(GPU))


def load_json(name):
    with open(os.path.join(CASES, name)) as f:
        return json.load(f)


class Case:
    """A picture: its file, and its samples as stored."""

    def __init__(self, entry):
        self.__dict__.update(entry)
        self.path = os.path.join(CASES, self.name + ".l3")
        with open(self.path, "rb") as f:
            self.bytes = f.read()
        samples = np.fromfile(os.path.join(CASES, self.name + ".pix"), f"<u{self.depth // 8}")
        self.samples = samples.reshape(self.height, self.width, self.channels)

    def floats(self, mean, std):
        """What the module promises, by NumPy."""
        top = 255 if self.depth == 8 else 65535
        scale = np.array([1 / (top * s) for s in std[:self.channels]], np.float32)
        bias = np.array([-m / s for m, s in zip(mean, std)][:self.channels], np.float32)
        return self.samples.astype(np.float32) * scale + bias


PICTURES = [Case(e) for e in load_json("pictures.json")]


def ordered(samples, layout):
    return samples if layout == "HWC" else samples.transpose(2, 0, 1)


def spoil(picture):
    """A file whose first patch no decoder takes, and what is wrong with it."""
    p = pipefs_gpu.parse(picture.bytes)
    b = bytearray(picture.bytes)
    if p.version == 1:
        b[p.offsets[0][0]:p.offsets[0][0] + p.lengths[0][0]] = b"\xff" * int(p.lengths[0][0])
    else:
        b[p.offsets[0][0]] = 3
    return bytes(b)


def header2(width, height, patch_width=256, patch_height=256, meta=0, channels=3, depth=8, patches=b"", rest=b""):
    """A header of version 2 with a right checksum, if it is whole."""
    head = b"LLL2" + struct.pack("<4B5I", channels, depth, 0, 0, width, height, patch_width, patch_height, meta)
    total = pipefs_gpu_l3.crc32c(head + bytes(4) + patches)
    return head + struct.pack("<I", total) + patches + rest


class GPUTest(unittest.TestCase):
    """Decoders of the device under test."""

    def setUp(self):
        self.open = pipefs_gpu._open
        if not REAL:
            self.framework = fake_gpu.Framework(MACHINE)
            pipefs_gpu._open = lambda *_: (self.framework, fake_gpu.Driver(MACHINE))
        logging.getLogger("pipefs_gpu").setLevel(logging.ERROR)

    def tearDown(self):
        pipefs_gpu._open = self.open
        if not REAL:
            self.framework.release()

    def numbers(self, tensor):
        return tensor.cpu().numpy()

    def same(self, tensor, expected, name=""):
        got = self.numbers(tensor)
        self.assertEqual(got.shape, expected.shape, name)
        self.assertTrue(np.array_equal(got, expected), f"{name}: {got.ravel()[:8]} instead of {expected.ravel()[:8]}")


class Decoding(GPUTest):
    def test_everything_in_one_batch(self):
        """All kinds of pictures, by path and as bytes, in both layouts."""
        decoder = pipefs_gpu.Decoder()
        for layout, some in (("HWC", PICTURES), ("CHW", [p for p in PICTURES if p.width < 40])):
            before = 0 if REAL else len(MACHINE.launches)
            items = [p.path if i % 2 else p.bytes for i, p in enumerate(some)]
            result = decoder.decode(items, layout=layout)
            self.assertIsInstance(result, list)
            for p, t in zip(some, result):
                self.assertEqual(t.dtype, torch.uint8 if p.depth == 8 else getattr(torch, "uint16", torch.int32))
                self.same(t, ordered(p.samples, layout), p.name)
            self.assertEqual(len({t.storage().data_ptr() for t in result if t.dtype == torch.uint8}), 1)
            if not REAL:
                self.assertEqual(sorted(name for name, _, _ in MACHINE.launches[before:]), sorted(pipefs_gpu_abi.ENTRIES))

    def test_numbers(self):
        """Floats of every kind, to the bit."""
        decoder = pipefs_gpu.Decoder(max_bytes=1 << 27)
        for channels in (1, 2, 3, 4):
            some = [p for p in PICTURES if p.channels == channels and p.width in (1, 21, 33)]
            for dtype, layout in (("float32", "CHW"), (torch.float16, "HWC")):
                result = decoder.decode([p.path for p in some], layout=layout, dtype=dtype, mean=MEAN[:channels], std=STD[:channels])
                for p, t in zip(some, result):
                    expected = p.floats(MEAN, STD)
                    self.same(t, ordered(expected if dtype == "float32" else expected.astype(np.float16), layout), p.name)
        p = PICTURES[0]
        self.same(decoder.decode([p.path], dtype=torch.float32)[0], p.floats((0,) * 4, (1,) * 4))
        self.same(decoder.decode([p.path], dtype=torch.float32, mean=.5, std=np.float64(.25))[0], p.floats((.5,) * 4, (.25,) * 4))

    def test_int32(self):
        some = [p for p in PICTURES if p.channels in (1, 4)][:12]
        for p, t in zip(some, pipefs_gpu.Decoder().decode([p.path for p in some], dtype=torch.int32, layout="CHW")):
            self.assertEqual(t.dtype, torch.int32)
            self.same(t, ordered(p.samples, "CHW"), p.name)

    def test_without_uint16(self):
        """16 bits are int32 where there is no other type for them."""
        if not REAL:
            self.framework.without = ("uint16",)
            p = next(p for p in PICTURES if p.depth == 16)
            t, = pipefs_gpu.Decoder().decode([p.bytes])
            self.assertEqual(t.dtype, torch.int32)
            self.same(t, p.samples)
            with self.assertRaisesRegex(ValueError, "there are uint8, int32"):
                pipefs_gpu.Decoder().decode([p.bytes], dtype="uint16")

    def test_one_tensor(self):
        """Pictures of one shape are one tensor, whatever their versions."""
        some = [p for p in PICTURES if (p.width, p.height, p.channels, p.depth) == (21, 17, 3, 8)]
        self.assertEqual({p.mode for p in some}, {"dense", "fast", "v1"})
        decoder = pipefs_gpu.Decoder()
        for layout in ("HWC", "CHW"):
            t = decoder.decode([p.path for p in some], layout=layout, size=(17, 21))
            self.assertTrue(t.is_contiguous())
            self.same(t, np.stack([ordered(p.samples, layout) for p in some]))
        self.assertEqual(decoder.decode([]), [])

    def test_out(self):
        """Memory of the caller, of any strides."""
        some = [p for p in PICTURES if (p.width, p.height, p.channels, p.depth) == (21, 17, 3, 8)]
        make = self.framework.caller_memory if not REAL else lambda shape, dtype: torch.zeros(shape, dtype=dtype, device="cuda")
        decoder, paths, n = pipefs_gpu.Decoder(), [p.path for p in some], len(some)
        expected = np.stack([p.samples for p in some])
        out = make((n, 17, 21, 3), torch.uint8)
        self.assertIs(decoder.decode(paths, out=out), out)
        self.same(out, expected)
        channels_last = make((n, 17, 21, 3), torch.float32).permute(0, 3, 1, 2)
        decoder.decode(paths, out=channels_last, layout="CHW", mean=MEAN[:3], std=STD[:3])
        self.same(channels_last, np.stack([ordered(p.floats(MEAN, STD), "CHW") for p in some]))
        apart = make((n, 20, 30, 5), torch.int32)[:, 1:18, 4:25, 1:4]
        decoder.decode(paths, out=apart)
        self.same(apart, expected)
        with self.assertRaisesRegex(pipefs_gpu.BatchError, "out has"):
            decoder.decode(paths[:1], out=out)
        for wrong in (out[0], torch.zeros(1).expand(n, 17, 21, 3), "memory", out[:1].expand(n, 17, 21, 3)):
            with self.assertRaises(ValueError):
                decoder.decode(paths, out=wrong)
        with self.assertRaises(ValueError):
            decoder.decode(paths, out=out, dtype="float32")

    def test_order(self):
        """Several batches on their way, whose memory is used again only when they are done."""
        decoder, some = pipefs_gpu.Decoder(slots=2), [p for p in PICTURES if p.width == 21][:9]
        pending = [decoder.submit([p.bytes, p.path]) for p in some]
        self.assertTrue(pending[0].done())
        for p, one in sorted(zip(some, pending), key=lambda x: x[0].bytes):
            for t in one.result():
                self.same(t, p.samples, p.name)
        self.assertTrue(pending[-1].done())

    def test_pinned_files(self):
        """What a loader pinned is not copied, and kept until the GPU has read it."""
        some = PICTURES[:6]
        files = pipefs_gpu.pack([p.path for p in some])
        decoder = pipefs_gpu.Decoder()
        if REAL:
            files = files.pin_memory()
        else:
            files.data.fake_pinned = True
        pending = decoder.submit(files)
        self.assertIs(pending._kept.data, files.data)
        self.assertNotIn("files", decoder._slots[0].memory)
        del files
        for p, t in zip(some, pending.result()):
            self.same(t, p.samples)
        self.assertIsNone(pending._kept)


class Errors(GPUTest):
    def batch(self):
        """Good pictures between bad ones: a list, and what is said of the bad ones."""
        v1 = next(p for p in PICTURES if p.version == 1)
        good = PICTURES[3]
        bad = {
            1: (spoil(PICTURES[2]), pipefs_gpu.Damaged, "picture 1: patch at 0, 0: its head is damaged"),
            3: (spoil(v1), pipefs_gpu.Damaged, "picture 3: patch at 0, 0: its rows are damaged"),
            4: (good.bytes[:-3], pipefs_gpu.Truncated, "picture 4: "),
            6: (os.path.join(CASES, "nothing.l3"), pipefs_gpu.Unreadable, "nothing.l3: No such file"),
            7: (pipefs_gpu.File("seven", b"GIF89a"), pipefs_gpu.Damaged, "seven: no L3 file: it begins with 47 49 46 38"),
            8: (b"", pipefs_gpu.Truncated, "picture 8: a file of 0 bytes"),
            9: (CASES, pipefs_gpu.Unreadable, "not a file"),
            10: (pipefs_gpu.File.read("/nowhere"), pipefs_gpu.Unreadable, "/nowhere: No such file"),
            11: (v1.bytes[:40], pipefs_gpu.Truncated, "picture 11: 40 bytes"),
        }
        return [bad[i][0] if i in bad else good.path for i in range(13)], good, bad

    def test_others_are_decoded(self):
        items, good, bad = self.batch()
        decoder = pipefs_gpu.Decoder()
        with self.assertRaises(pipefs_gpu.BatchError) as caught:
            decoder.decode(items)
        e = caught.exception
        self.assertEqual(list(e.errors), list(bad))
        for i, (_, kind, says) in bad.items():
            self.assertIs(type(e.errors[i]), kind, e.errors[i])
            self.assertIn(says, str(e.errors[i]))
        self.assertRegex(str(e), r"^9 of 13 pictures were not decoded: picture 1: .*; and 4 more$")
        with self.assertLogs("pipefs_gpu", logging.WARNING) as logged:
            result = decoder.decode(items, errors="none")
        self.assertEqual(len(logged.records), len(bad))
        for pictures in (e.pictures, result):
            for i, t in enumerate(pictures):
                if i in bad:
                    self.assertIsNone(t)
                else:
                    self.same(t, good.samples)

    def test_all_bad(self):
        self.assertEqual(pipefs_gpu.Decoder().decode([b"no", b"nor this"], errors="none"), [None, None])

    def test_verify(self):
        b = bytearray(PICTURES[2].bytes)
        p = pipefs_gpu.parse(b)
        b[p.offsets[0][-1] + p.lengths[0][-1] - 1] ^= 1
        pipefs_gpu.parse(b)
        with self.assertRaisesRegex(pipefs_gpu.BatchError, "its checksum differs"):
            pipefs_gpu.Decoder(verify=True).decode([bytes(b)])
        pipefs_gpu.Decoder(verify=True).decode([PICTURES[2].path])

    def test_unwanted(self):
        grey16 = next(p for p in PICTURES if p.depth == 16 and p.channels == 1)
        rgb = next(p for p in PICTURES if p.depth == 8 and p.channels == 3)
        decoder = pipefs_gpu.Decoder()
        for options, says in (({"dtype": "uint8"}, "samples of 16 bits, dtype is uint8"), ({"size": (5000, 7)}, "size is 5000×7"),
                              ({"dtype": "float32", "mean": (0, 0, 0)}, "1 channels, mean is for 3")):
            with self.assertRaisesRegex(pipefs_gpu.BatchError, says):
                decoder.decode([grey16.path], **options)
        with self.assertRaisesRegex(pipefs_gpu.BatchError, "max_pixels"):
            pipefs_gpu.Decoder(max_pixels=rgb.width * rgb.height - 1).decode([rgb.path])
        for options in ({"layout": "WHC"}, {"errors": "ignore"}, {"dtype": "float64"}, {"dtype": torch.int64}, {"mean": 1}, {"std": 2, "dtype": "uint8"},
                        {"std": 0, "dtype": "float32"}, {"mean": float("nan"), "dtype": "float32"}):
            with self.assertRaises(ValueError):
                decoder.decode([rgb.path], **options)
        self.assertTrue(decoder.decode([rgb.path], errors="none").shape[0])

    def test_limits(self):
        rgb = next(p for p in PICTURES if p.width == 300)
        n = 300 * 40 * 3
        small = pipefs_gpu.Decoder(max_bytes=n + len(rgb.bytes) + 4096)
        self.same(small.decode([rgb.path])[0], rgb.samples)
        with self.assertRaisesRegex(pipefs_gpu.LimitError, "max_bytes"):
            small.decode([rgb.path] * 3)
        larger = pipefs_gpu.Decoder(max_bytes=3 * n)
        larger.decode([rgb.path], dtype="float16")
        with self.assertRaisesRegex(pipefs_gpu.LimitError, "the largest is .*, 300×40"):
            larger.decode([PICTURES[0].path, rgb.path, rgb.path], dtype="float16")
        with self.assertRaisesRegex(pipefs_gpu.BatchError, "max_bytes"):
            small.decode([rgb.path], dtype="float32")
        with self.assertRaisesRegex(pipefs_gpu.BatchError, "the limit is 50"):
            pipefs_gpu.Decoder(max_bytes=50).decode([rgb.path])
        self.same(small.decode([rgb.path])[0], rgb.samples)

    def test_hostile(self):
        """Headers that promise much cost little."""
        before = 0 if REAL else len(MACHINE.launches)
        decoder = pipefs_gpu.Decoder()
        big, top = 1 << 30, (1 << 32) - 1
        hostile = [header2(w, h, pw, ph, meta, rest=rest)
                   for w, h, pw, ph in ((big, big, 1, 1), (14000, 14000, 1, 1), (14000, 14000, big, big), (top, top, top, top), (200 << 20, 1, big, 1), (1, 200 << 20, 1, 1))
                   for meta in (0, big, top) for rest in (b"", bytes(1000), bytes(1 << 20))]
        hostile += [b"LLL" + sign + struct.pack("<iiBB", w, h, n, 3) + bytes(1 << 20)
                    for sign in (b".", b"+") for w, h, n in ((2 ** 31 - 1, 2 ** 31 - 1, 1), (14000, 14000, 200), (14000, 14000, 1), (14280, 14280, 255), (-1, -1, 1), (0, 5, 1), (5, 5, 0))]
        # Directories that are there, and patches that are not.
        for n, length in ((1, 0), (1, top), (1, 1000), (2000, top), (2000, 0), (2000, 16)):
            directory = struct.pack("<II", length, 0) * n
            hostile.append(header2(256 * n, 256, patches=directory, rest=bytes(40000)))
        hostile.append(header2(14000, 14000, 14000, 14000, patches=struct.pack("<II", 16, 0), rest=bytes(8 + 16 + 8)))
        began, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = decoder.decode(hostile, errors="none")
        self.assertEqual(result, [None] * len(hostile))
        self.assertLess(time.process_time() - began, 3)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory, 400 << 10)  # KiB
        if not REAL:
            self.assertEqual(len(MACHINE.launches), before)

    def test_fork(self):
        decoder = pipefs_gpu.Decoder()
        with unittest.mock.patch("os.getpid", return_value=1), self.assertRaisesRegex(pipefs_gpu.DeviceError, "forked"):
            decoder.decode([PICTURES[0].path])

    def test_failure(self):
        """A launch that fails is an error of the batch, and the decoder goes on."""
        if REAL:
            self.skipTest("a real GPU does not fail on demand")
        decoder, p = pipefs_gpu.Decoder(), PICTURES[4]
        with unittest.mock.patch.object(fake_gpu.Driver, "launch", side_effect=pipefs_gpu.DeviceError("cuLaunchKernel: no")):
            with self.assertRaisesRegex(pipefs_gpu.DeviceError, "cuLaunchKernel"):
                decoder.decode([p.path])
        for _ in range(3):
            self.same(decoder.decode([p.path])[0], p.samples)

    def test_errors_travel(self):
        for e in (pipefs_gpu.Damaged("a", "b"), pipefs_gpu.BatchError({1: pipefs_gpu.Truncated("c", "d")}, [None, None])):
            self.assertEqual(str(pickle.loads(pickle.dumps(e))), str(e))


class Frameworks(unittest.TestCase):
    """The calls of PyTorch and CuPy."""

    def check(self, library, module, view):
        some = [p for p in PICTURES if p.width < 40]
        rgb = [p for p in some if (p.width, p.channels, p.depth) == (21, 3, 8)]
        fake_frameworks.calls.clear()
        with unittest.mock.patch.dict(sys.modules, {library: module}), unittest.mock.patch.object(pipefs_gpu, "Driver", fake_frameworks.Driver):
            decoder = pipefs_gpu.Decoder(0, library=library, priority="high")
            for dtype, layout in ((None, "HWC"), ("int32", "CHW"), ("float16", "CHW"), ("float32", "HWC")):
                for p, t in zip(some, decoder.decode([p.path for p in some], dtype=dtype, layout=layout)):
                    expected = np.full_like(ordered(p.samples, layout), p.channels + 256 * (p.depth == 16 and dtype in (None, "int32")))
                    self.assertTrue(np.array_equal(view(t), expected), p.name)
            self.assertEqual({s.stream.priority for s in decoder._slots}, {-1})
            began = len(fake_frameworks.calls)
            pending = decoder.submit([p.path for p in rgb])
            self.assertTrue(pending.done())
            batch = pending.result()
            self.assertEqual(tuple(batch.shape), (len(rgb), 17, 21, 3))
            calls = fake_frameworks.calls[began:]
            out = batch[1:]
            began = len(fake_frameworks.calls)
            self.assertIs(decoder.decode([p.path for p in rgb[1:]], out=out), out)
            with unittest.mock.patch.object(fake_frameworks.Driver, "launch", side_effect=pipefs_gpu.DeviceError("no")), self.assertRaises(pipefs_gpu.DeviceError):
                decoder.decode([rgb[0].path])
            self.assertEqual(fake_frameworks.calls[-1], "finish")
            for wrong in (0, batch[0], np.zeros(batch.shape, np.uint8)):
                with self.assertRaises(ValueError):
                    decoder.decode([rgb[0].path], out=wrong)
            with self.assertRaises(ValueError):
                decoder.decode([rgb[0].path], dtype="float64")
            return calls, fake_frameworks.calls[began:]

    def test_torch(self):
        with unittest.mock.patch.object(pipefs_gpu_cuda, "Torch", TORCH):
            plain, out = self.check("torch", fake_frameworks.fake_torch(), lambda t: t.as_subclass(torch.Tensor).numpy())
        # Decoding waits for nothing; the caller's stream waits, and is told to the allocator.
        self.assertEqual(plain, [("record", "ours"), "wait", ("the caller's", "waits"), ("recorded for", "the caller's")])
        self.assertEqual(out[:2], [("ours", "waits for", "the caller's"), ("recorded for", "ours")])

    def test_cupy(self):
        plain, out = self.check("cupy", fake_frameworks.fake_cupy(), np.asarray)
        # Memory is of the caller's stream, for which ours waits.
        self.assertEqual(plain, [("record", "the caller's"), ("ours", "waits"), ("record", "ours"), "wait", ("the caller's", "waits")])
        self.assertEqual(out[:2], [("record", "the caller's"), ("ours", "waits")])


class Parsing(unittest.TestCase):
    """Needs no GPU."""

    def check_headers(self):
        with open(os.path.join(CASES, "headers.bin"), "rb") as f:
            everything = f.read()
        stricter = 0
        for case in load_json("headers.json"):
            b = everything[case["begin"]:case["begin"] + case["len"]]
            try:
                p = pipefs_gpu.parse(b, verify=len(b) % 2 == 0)
            except pipefs_gpu.PictureError as e:
                self.assertTrue(case["broken"], f"{e}, and nothing is wrong with {b[:64].hex()}")
                stricter += "error" not in case
                continue
            self.assertNotIn("error", case, b[:64].hex())
            target = pipefs_gpu_l3.Target(0x40_0000_0000, 4 * p.width, 4, 4 * p.width * p.height, 1,
                                        pipefs_gpu_l3.factors_of(p, MEAN[:p.channels], STD[:p.channels]))
            records, patches, launches = pipefs_gpu_l3.make_tables([p], [0x20_0000_0000], [target], 0x31_0000_0010)
            self.assertEqual(zlib.crc32(records + patches), case["records"], b[:64].hex())
            self.assertEqual(sum(p.scratch or [0]), case["scratch"])
            self.assertEqual(launches, [(p.entry, 0, p.patches)])
        return stricter

    def test_headers(self):
        """The same verdicts and tables as of package kernel."""
        print(self.check_headers(), "refused for what the GPU would find", file=sys.stderr)

    def test_headers_without_numpy(self):
        with unittest.mock.patch.object(pipefs_gpu_l3, "_np", None):
            self.check_headers()

    def test_prefixes(self):
        """No file is good without its end."""
        for p in PICTURES[:8]:
            for n in list(range(0, min(len(p.bytes), 80))) + [len(p.bytes) - 1]:
                with self.assertRaises(pipefs_gpu.PictureError):
                    pipefs_gpu.parse(p.bytes[:n])

    def test_checksum(self):
        self.assertEqual(pipefs_gpu_l3.crc32c_slowly(b"123456789"), 0xE3069283)
        self.assertEqual(pipefs_gpu_l3.crc32c(b"6789", pipefs_gpu_l3.crc32c(b"12345")), 0xE3069283)
        some = np.random.default_rng(1).integers(0, 256, 5000, np.uint8).tobytes()
        for n in [*range(10), 31, 1023, 1024, 1025, 1026, 1027, 1028, 2048, 5000]:
            self.assertEqual(pipefs_gpu_l3.crc32c(some[:n]), pipefs_gpu_l3.crc32c_slowly(some[:n]), n)

    def test_pack(self):
        files = pipefs_gpu.pack([p.path for p in PICTURES])
        for p, (at, n) in zip(PICTURES, files.places):
            self.assertEqual(at % 16, 0)
            self.assertEqual(bytes(pipefs_gpu_files.bytes_of(files.data)[at:at + n + 16]), p.bytes + bytes(16))
        with unittest.mock.patch.dict(sys.modules, {"torch": None}):
            self.assertEqual(bytes(pipefs_gpu.pack([b"abc", b""]).data), b"abc" + bytes(45))
        with self.assertRaises(TypeError):
            pipefs_gpu.pack([pipefs_gpu.File("a", "b")])


class Program(unittest.TestCase):
    def test_where_it_comes_from(self):
        with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as stack:
            gpu = os.path.join(d, "mnt", ".pipefs", "gpu")
            os.makedirs(os.path.join(d, "mnt", "l3", "cats"))
            os.makedirs(gpu)
            picture = os.path.join(d, "mnt", "l3", "cats", "a.l3")
            mine = os.path.join(d, "pipefs_gpu.py")
            stack.enter_context(unittest.mock.patch.object(pipefs_gpu, "__file__", mine))
            with self.assertRaisesRegex(pipefs_gpu.DeviceError, "no program.*set PIPEFS_PTX"):
                pipefs_gpu.find_ptx(names=[picture])
            with open(os.path.join(gpu, "l3.ptx"), "wb") as f:
                f.write(b"the mount's")
            with self.assertRaises(pipefs_gpu.DeviceError):
                pipefs_gpu.find_ptx(names=[picture])  # a directory of that name is no mount
            real = os.path.ismount
            stack.enter_context(unittest.mock.patch("os.path.ismount", lambda p: p == os.path.join(d, "mnt") or real(p)))
            self.assertEqual(pipefs_gpu.find_ptx(names=[picture]), b"the mount's")
            self.assertEqual(pipefs_gpu.find_ptx(names=[os.path.dirname(picture) + "/../../l3/cats/a.l3"]), b"the mount's")
            with open(os.path.join(gpu, "l3.90.ptx"), "wb") as f:
                f.write(b"the mount's for 9.0")
            self.assertEqual(pipefs_gpu.find_ptx(names=[picture], major=8), b"the mount's")
            self.assertEqual(pipefs_gpu.find_ptx(names=[picture], major=10), b"the mount's for 9.0")
            with open(os.path.join(d, "l3.ptx"), "wb") as f:
                f.write(b"beside")
            self.assertEqual(pipefs_gpu.find_ptx(names=[picture]), b"beside")
            self.assertEqual(pipefs_gpu.find_ptx(names=[picture], major=9), b"beside")
            packed = os.path.join(d, "l3.ptx.gz")
            with gzip.open(packed, "wb") as f:
                f.write(b"packed")
            self.assertEqual(pipefs_gpu.find_ptx(packed), b"packed")
            other = os.path.join(d, "other")
            with open(other, "wb") as f:
                f.write(b"named")
            with unittest.mock.patch.dict(os.environ, PIPEFS_PTX=other):
                self.assertEqual(pipefs_gpu.find_ptx(), b"named")
                self.assertEqual(pipefs_gpu.find_ptx(b"bytes"), b"bytes")
            self.assertEqual(pipefs_gpu.find_ptx(other), b"named")


class NoGPU(unittest.TestCase):
    def test_no_libcuda(self):
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "no NVIDIA driver: libcuda-of-nobody.so"):
            pipefs_gpu_cuda.Driver(0, ["libcuda-of-nobody.so", "nor-this.so"])

    def test_old_driver(self):
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "no cuInit: it is older"):
            pipefs_gpu_cuda.Driver(0, [None])  # this program itself

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_no_gpu(self):
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "PyTorch .* has no GPU"):
            pipefs_gpu.Decoder()
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "has to be torch or cupy"):
            pipefs_gpu.Decoder(library="jax")
        for wrong in ({"priority": "middling"}, {"slots": 0}):
            with self.assertRaises(ValueError):
                pipefs_gpu.Decoder(**wrong)

    def test_import_touches_nothing(self):
        code = "import sys, pipefs_gpu; sys.exit(any(m in sys.modules for m in ('torch', 'cupy')))"
        subprocess.run([sys.executable, "-c", code], check=True)


class FakeCuda:
    """A libcuda that keeps a list of the calls, and fails where it is told to."""

    def __init__(self, fails=None):
        self.calls, self.fails = [], fails or {}

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, arguments)

    def call(self, name, arguments):
        self.calls.append(name)
        if name == "cuDevicePrimaryCtxRetain":
            arguments[0]._obj.value = 7
        if name == "cuLaunchKernel":
            self.launch = [a.value for a in arguments[:9]], [ctypes.cast(arguments[9][i], ctypes.POINTER(t)).contents.value for i, t in enumerate((ctypes.c_uint64, ctypes.c_uint32))]
        if name == "cuModuleLoadDataEx" and name in self.fails:
            ctypes.memmove(arguments[4][0], b"line 1;\n  wrong\0", 16)
        if name in ("cuGetErrorName", "cuGetErrorString"):
            arguments[1]._obj.value = b"CUDA_ERROR" if name == "cuGetErrorName" else b"what it means"
            return 0
        return self.fails.get(name, 0)


class Calls(unittest.TestCase):
    """The calls of libcuda."""

    def driver(self, **fails):
        self.cuda = FakeCuda(fails)
        with unittest.mock.patch.object(pipefs_gpu_cuda.Driver, "_open", return_value=self.cuda):
            return pipefs_gpu_cuda.Driver(0)

    def test_calls(self):
        d = self.driver()
        f = d.function(d.load(b"program"), "l3v1_3")
        d.launch(f, 9, (ctypes.c_uint64(1 << 40), ctypes.c_uint32(5)), 0xABC)
        self.assertEqual([c for c in self.cuda.calls if "Ctx" not in c], ["cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel"])
        self.assertEqual(self.cuda.calls.count("cuCtxPushCurrent_v2"), 3)
        self.assertEqual(self.cuda.calls.count("cuCtxPopCurrent_v2"), 3)
        self.assertEqual(self.cuda.launch, ([None, 9, 1, 1, 64, 1, 1, 0, 0xABC], [1 << 40, 5]))

    def test_failures(self):
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "^cuInit: CUDA_ERROR: what it means$"):
            self.driver(cuInit=100)
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "CUDA 12.2 or newer: cuModuleLoadDataEx: CUDA_ERROR: what it means: line 1; wrong$"):
            self.driver(cuModuleLoadDataEx=218).load(b"program")
        self.assertEqual(self.cuda.calls.count("cuCtxPopCurrent_v2"), 1)


class Loading(GPUTest):
    def test_loader(self):
        """Workers read, this process decodes."""
        with tempfile.TemporaryDirectory() as root:
            expected = {}
            for i, p in enumerate(p for p in PICTURES if p.width in (21, 33)):
                d = os.path.join(root, f"class{i % 3}", "deeper")
                os.makedirs(d, exist_ok=True)
                os.symlink(p.path, os.path.join(d, p.name + ".L3"))
                expected[p.name] = p.samples, i % 3
            os.makedirs(os.path.join(root, ".hidden"))
            with open(os.path.join(root, "class0", "notes.txt"), "w"):
                pass
            os.symlink("/nowhere", os.path.join(root, "class2", "gone.l3"))
            data = pipefs_gpu.BytesDataset(root)
            self.assertEqual(data.classes, ["class0", "class1", "class2"])
            self.assertEqual(len(data), len(expected) + 1)
            loader = torch.utils.data.DataLoader(data, batch_size=5, num_workers=2, collate_fn=pipefs_gpu.collate)
            names = iter([os.path.splitext(os.path.basename(path))[0] for path, _ in data.samples])
            found = 0
            for pictures, labels in pipefs_gpu.Decoder().batches(loader, errors="none"):
                self.assertEqual(len(pictures), len(labels))
                for t, label in zip(pictures, labels.tolist()):
                    name = next(names)
                    if name == "gone":
                        self.assertIsNone(t)
                        continue
                    self.same(t, expected[name][0], name)
                    self.assertEqual(label, expected[name][1])
                    found += 1
            self.assertEqual(found, len(expected))

    def test_files_alone(self):
        some = PICTURES[:5]
        loader = torch.utils.data.DataLoader([pipefs_gpu.File.read(p.path) for p in some], batch_size=2, collate_fn=pipefs_gpu.collate)
        result = [t for batch in pipefs_gpu.Decoder().batches(loader) for t in batch]
        for p, t in zip(some, result):
            self.same(t, p.samples)

    def test_empty_tree(self):
        with tempfile.TemporaryDirectory() as root, self.assertRaises(FileNotFoundError):
            pipefs_gpu.BytesDataset(root)


if __name__ == "__main__":
    unittest.main()
