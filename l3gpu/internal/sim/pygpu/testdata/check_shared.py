"""Judges what pipefs_gpu_shared does when things go wrong, by a mount that says what a test tells it to.

That pictures are right is judged in l3gpu/share, with a real mount.
"""

import base64
import ctypes
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

import fake_frameworks
import numpy as np
import pipefs_gpu
import pipefs_gpu_cuda
import pipefs_gpu_ipc
import pipefs_gpu_shared as shared
import torch

SLOT = 4096
GPU = {"uuid": "GPU-1", "pci": "0000:01:00.0", "name": "Test GPU"}


def handle(slot):
    return bytes([slot]) * 64


def given(slot, generation, *pictures, handle_of=None):
    return {"slot": slot, "generation": generation, "handle": base64.b64encode(handle(slot if handle_of is None else handle_of)).decode(), "pictures": list(pictures)}


def picture(offset=0, shape=(2, 3, 3), dtype="uint8"):
    return {"offset": offset, "shape": shape, "dtype": dtype}


class Mount:
    """Answers each request but open, close and release with the next of a list: a reply, bytes, or an event to wait for."""

    def __init__(self, answers=(), hello=None):
        self.answers, self.hello = list(answers), hello or {"device": GPU, "slots": 3, "slot_bytes": SLOT}
        self.asked = []  # operations, with slot and generation of releases
        self.dir = tempfile.TemporaryDirectory(dir="/tmp")
        self.path = os.path.join(self.dir.name, "s")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        conn, _ = self.listener.accept()
        with conn, conn.makefile("rb") as lines:
            for line in lines:
                r = json.loads(line)
                self.asked.append((r["op"], r["slot"], r["generation"]) if r["op"] == "release" else r["op"])
                answer = {"open": self.hello, "release": {}, "close": {}}.get(r["op"])
                while answer is None:
                    answer = self.answers.pop(0)
                    if isinstance(answer, threading.Event):
                        answer.wait(10)
                        answer = None
                if isinstance(answer, bytes):
                    conn.sendall(answer)
                    return
                conn.sendall(json.dumps({"v": 1, **answer}).encode() + b"\n")
                if answer.get("fatal"):
                    return

    def end(self):
        self.thread.join(10)
        self.listener.close()
        self.dir.cleanup()


class Framework(pipefs_gpu_cuda.Torch):
    """PyTorch on the CPU, with events that are done when a test says so."""

    def __init__(self):
        self.torch, self.device, self.index = torch, torch.device("cpu"), 0
        self.pending, self.follows = [], 0

    def stream(self):
        return "ours"

    def foreign(self, address, n):
        return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_ubyte * n).from_address(address)))

    def output(self, n, stream):
        return torch.zeros(n, dtype=torch.uint8)

    def duplicate(self, array, from_, begin, n, stream):
        array[:n].copy_(from_[begin:begin + n])

    def record(self, stream):
        event = types.SimpleNamespace(done=not self.follows, waited=False)
        return event

    def done(self, event):
        return event.done

    def wait(self, event):
        event.done = event.waited = True

    def finish(self, stream):
        pass

    def follow_caller(self, array, stream):
        self.follows += 1

    def hand_over(self, array, event):
        assert event.done


class Driver:
    """Memory of slots by their handles."""

    def __init__(self):
        self.memory = {handle(i): np.full(SLOT, i + 1, np.uint8) for i in range(3)}
        self.open = set()

    def open_memory(self, h):
        assert h not in self.open, "opened twice"
        self.open.add(h)
        return self.memory[h].ctypes.data

    def close_memory(self, address):
        self.open.remove(next(h for h in self.open if self.memory[h].ctypes.data == address))


class Shared(unittest.TestCase):
    def setUp(self):
        self.framework, self.driver = Framework(), Driver()
        self.mounts, self.decoders = [], []
        patch = unittest.mock.patch.object(shared, "_open", lambda *_: (self.framework, self.driver))
        patch.start()
        self.addCleanup(patch.stop)
        logging.getLogger("pipefs_gpu_shared").setLevel(logging.ERROR)

    def tearDown(self):
        for d in self.decoders:
            d.close()
        for m in self.mounts:
            m.end()
        self.assertEqual(self.driver.open, set(), "handles that were not closed")

    def mount(self, *answers, **options):
        m = Mount(answers, **options)
        self.mounts.append(m)
        return m

    def decoder(self, mount, **options):
        d = shared.SharedDecoder("/", socket=mount.path, timeout=10, **options)
        self.decoders.append(d)
        return d

    def test_order(self):
        """Batches that are asked for ahead, and asked after in another order."""
        m = self.mount(given(0, 1, picture()), given(1, 2, picture()), given(0, 3, picture(64)))
        d = self.decoder(m)
        first, second = d.submit(["/a"]), d.submit(["/b"])
        self.assertEqual(second.result().unique().tolist(), [2])
        self.assertEqual(first.result().unique().tolist(), [1])
        self.assertEqual(first.result().shape, (1, 2, 3, 3))
        self.assertEqual(d.decode(["/c"]).unique().tolist(), [1])
        d.close()
        d.close()
        self.assertEqual(m.asked, ["open", "decode", "decode", ("release", 1, 2), ("release", 0, 1), "decode", ("release", 0, 3), "close"])

    def test_leases(self):
        """A lease is released when the GPU is done with it, and waited for only if there is no other slot."""
        m = self.mount(*(given(i, i + 1, picture()) for i in range(3)), given(0, 4, picture()))
        d = self.decoder(m)
        for i in range(3):
            with d.lease(["/a"]) as images:
                self.assertEqual(images.unique().tolist(), [i + 1])
                images.fill_(9)  # it is the mount's memory
        self.assertEqual(self.driver.memory[handle(0)][0], 9)
        self.assertEqual([x for x in m.asked if x[0] == "release"], [])
        events = [e for e, _, _ in d._leaving]
        d.decode(["/b"])
        self.assertEqual([e.waited for e in events], [True, False, False])
        events[1].done = True
        d._collect()
        d.close()
        self.assertEqual([x for x in m.asked if x[0] == "release"], [("release", 0, 1), ("release", 0, 4), ("release", 1, 2)])

    def test_abandoned(self):
        """What was asked for and given up is released all the same, and a lease is so twice."""
        m = self.mount(given(0, 1, picture()), given(1, 2, picture()))
        d = self.decoder(m)
        d.submit(["/a"])
        lease = d.submit(["/b"]).lease()
        lease.release()
        lease.release()
        self.assertIsNone(lease.pictures)
        d.close()
        self.assertIn(("release", 0, 1), m.asked)

    def test_defects(self):
        """A mount that says nonsense does no harm, and what it gave is given back."""
        cases = [given(0, 1), given(0, 1, picture(SLOT - 17)), given(0, 1, picture(-1)), given(0, 1, picture(shape=(0, 3, 3))),
                 given(0, 1, picture(shape=(2, 3))), given(0, 1, picture(shape=(1 << 40, 1 << 40, 3)))]
        m = self.mount(*cases, given(0, 2, picture(SLOT - 18)), given(0, 3, picture(), handle_of=1))
        d = self.decoder(m)
        for _ in cases:
            with self.assertRaisesRegex(pipefs_gpu.DeviceError, "please report"):
                d.decode(["/a"])
        self.assertEqual(d.decode(["/a"]).unique().tolist(), [1])
        with self.assertRaisesRegex(pipefs_gpu.DeviceError, "another handle"):
            d.decode(["/a"])
        d.close()
        self.assertEqual(sum(x[0] == "release" for x in m.asked), len(cases) + 2)

    def test_errors(self):
        """The kinds of errors of batches and of pictures."""
        bad = {"error": "a stream is damaged", "kind": "damaged"}
        m = self.mount({"error": "all 3 slots", "kind": "slots"}, {"error": "too much", "kind": "large"}, {"error": "lost", "kind": "gpu"}, {"error": "odd", "kind": "request"},
                       given(0, 1, bad, picture(64), picture(128, (5, 3, 3))), given(0, 2, bad))
        d = self.decoder(m)
        for kind in (shared.SlotsError, shared.LimitError, shared.Unavailable, pipefs_gpu.DeviceError):
            with self.assertRaises(kind):
                d.decode(["/a"])
        with self.assertRaises(shared.BatchError) as caught:
            d.decode(["/x", "/y", "/z"], size=(2, 3))
        e = caught.exception
        self.assertEqual({i: type(x) for i, x in e.errors.items()}, {0: pipefs_gpu.Damaged, 2: pipefs_gpu.Unsupported})
        self.assertEqual(str(e.errors[0]), "/x: a stream is damaged")
        self.assertEqual([x is None for x in e.pictures], [True, False, True])
        with self.assertLogs("pipefs_gpu_shared", logging.WARNING):
            self.assertEqual(d.decode(["/x"], errors="none"), [None])

    def test_cut(self):
        """The reason for which a mount ends a connection is the error, as is its end without any."""
        for answer, says in (({"error": "too many requests", "kind": "request", "fatal": True}, "too many requests"), (b"", "closed the connection"),
                             (b"nonsense\n", "Expecting value"), (b"x" * (pipefs_gpu_ipc.MAX_REPLY + 1), "too long")):
            d = self.decoder(self.mount(answer))
            with self.assertRaisesRegex(shared.Unavailable, says):
                d.decode(["/a"])
            with self.assertRaises(shared.Unavailable):
                d.submit(["/a"])
            d.close()

    def test_refused(self):
        """No socket, no place, another GPU: told apart; a place that is of no use is given back."""
        with self.assertRaisesRegex(shared.Unavailable, "/nowhere/s: No such file.*--gpu-share"):
            shared.SharedDecoder("/", socket="/nowhere/s")
        with unittest.mock.patch.dict(os.environ, PIPEFS_GPU_SOCKET="/nowhere/else"), self.assertRaisesRegex(shared.Unavailable, "/nowhere/else"):
            shared.SharedDecoder("/")
        full = self.mount(hello={"error": "2 processes share the GPU already", "kind": "full", "fatal": True})
        with self.assertRaisesRegex(shared.Unavailable, "2 processes"):
            self.decoder(full)
        other = self.mount()
        with unittest.mock.patch.object(shared, "_open", side_effect=shared.Unavailable("which this process does not see")), self.assertRaises(shared.Unavailable):
            self.decoder(other)
        other.thread.join(10)
        self.assertEqual(other.asked, ["open", "close"])

    def test_fork(self):
        m = self.mount()
        d = self.decoder(m)
        with unittest.mock.patch("os.getpid", return_value=1):
            with self.assertRaisesRegex(pipefs_gpu.DeviceError, "forked"):
                d.decode(["/a"])
            shared._farewell(d._pid, d._connection, d._driver, d._memory, self.framework, "ours")
        self.assertEqual(m.asked, ["open"])

    def test_fallback(self):
        """From the batch on at which the mount fails, this process decodes, and says so once."""
        made = []

        class Own(pipefs_gpu.Decoder):
            def __init__(self, device, library):
                made.append((device, library))

            def submit(self, paths, **options):
                return types.SimpleNamespace(result=lambda: (paths, options))

        m = self.mount(given(0, 1, picture()), {"error": "the GPU is lost", "kind": "gpu"})
        with unittest.mock.patch.object(pipefs_gpu, "Decoder", Own), self.assertLogs("pipefs_gpu_shared", logging.WARNING) as logged:
            d = shared.decoder("/", socket=m.path)
            loader = [(["/a"], 1), (["/b"], 2), (["/c"], 3)]
            got = list(d.batches(loader, layout="CHW", copy=False))
            self.assertEqual(got[0][0].unique().tolist(), [1])
            self.assertEqual([x[1] for x in got], [1, 2, 3])
            self.assertEqual([x[0] for x in got[1:]], [(["/b"], {"layout": "CHW"}), (["/c"], {"layout": "CHW"})])
            self.assertFalse(d.shared)
            d.close()
            self.assertEqual(made, [(None, None)])
            # The same from the beginning, where there is no mount.
            self.assertEqual(shared.decoder("/", socket="/nowhere").decode(iter(["/a"])), (["/a"], {}))
        self.assertEqual(len(logged.records), 2)
        self.assertIn("the GPU is lost", logged.output[0])


class Parts(unittest.TestCase):
    def test_foreign(self):
        """How frameworks are told of memory that is not theirs."""
        seen = []
        module = fake_frameworks.fake_torch()
        module.as_tensor = lambda o, device: seen.append((o.__cuda_array_interface__, str(device))) or "tensor"
        with unittest.mock.patch.dict(sys.modules, torch=module):
            self.assertEqual(pipefs_gpu_cuda.Torch(0, 0).foreign(4711, 99), "tensor")
        self.assertEqual(seen, [({"shape": (99,), "typestr": "|u1", "data": (4711, False), "strides": None, "version": 3}, "cuda:0")])

    def test_duplicate(self):
        for name, module in (("torch", fake_frameworks.fake_torch()), ("cupy", fake_frameworks.fake_cupy())):
            with unittest.mock.patch.dict(sys.modules, {name: module}):
                f = {"torch": pipefs_gpu_cuda.Torch, "cupy": pipefs_gpu_cuda.Cupy}[name](0, 0)
                to, from_ = f.work(50, f.stream()), f.work(100, f.stream())
                from_[:] = torch.arange(100, dtype=torch.uint8) if name == "torch" else np.arange(100)
                f.duplicate(to, from_, 30, 20, f.stream())
                self.assertEqual([int(x) for x in to[:21]], [*range(30, 50), 0xEE], name)

    def test_uuid(self):
        """GPUs are told apart by what they are, not by their numbers."""
        class Cuda:
            cuInit = staticmethod(lambda flags: 0)

            @staticmethod
            def cuDeviceGetCount(n):
                n._obj.value = 3
                return 0

            @staticmethod
            def cuDeviceGet(device, index):
                device._obj.value = 10 + index.value
                return 0

            @staticmethod
            def cuDeviceGetUuid_v2(b, device):
                b[:] = [device.value] * 16
                return 0

        with unittest.mock.patch.object(pipefs_gpu_ipc.Driver, "_open", lambda names: Cuda):
            self.assertEqual(pipefs_gpu_ipc.Driver.index_of("GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"), 1)
            with self.assertRaisesRegex(shared.Unavailable, "GPU-9 .*CUDA_VISIBLE_DEVICES"):
                shared._open("torch", None, {**GPU, "uuid": "GPU-9"})
            there = {**GPU, "uuid": "GPU-0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c"}
            with unittest.mock.patch.object(pipefs_gpu_cuda, "open_framework", lambda library, device, priority: types.SimpleNamespace(index=device)):
                with self.assertRaisesRegex(shared.Unavailable, "which is GPU 2 here, not 0"):
                    shared._open("torch", 0, there)

    def test_import_touches_nothing(self):
        code = "import sys, pipefs_gpu_shared; sys.exit(any(m in sys.modules for m in ('torch', 'cupy')))"
        subprocess.run([sys.executable, "-c", code], check=True)


unittest.main()
