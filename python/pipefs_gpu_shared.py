"""Has the L3 pictures of a mount decoded by the mount's own decoder, which other
processes share, and gives them out as tensors on the GPU.

The mount is made with `pipefs mount --gpu-share N`, for N such processes. It reads the
files and decodes them to its memory on the GPU, which is opened here (CUDA IPC); only
paths and places go over its socket. The other files pipefs_gpu*.py have to lie beside this one.

    import torch, pipefs_gpu_shared

    data = pipefs_gpu_shared.PathDataset("/mnt/l3/train")        # a directory per class
    loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True,
                                         collate_fn=pipefs_gpu_shared.collate)
    with pipefs_gpu_shared.decoder("/mnt") as decoder:
        for images, labels in decoder.batches(loader, layout="CHW", dtype=torch.float16,
                                              mean=(.485, .456, .406), std=(.229, .224, .225)):
            loss = criterion(model(images), labels.cuda(non_blocking=True))

`decoder` returns a SharedDecoder, or where the mount shares nothing, has no GPU, or has
no place left, a pipefs_gpu.Decoder, which decodes in this process and takes the same
calls; a warning in the log says which. The loader needs no workers: it handles paths only.

What you get are copies in your framework's own memory, which are yours. With copy=False,
`lease` and `batches` give the mount's memory itself: that is for use inside the `with`
statement, or until the next batch, and nothing may be kept that was not cloned.

Two processes do not use a GPU at the same time, but by turns (unless there is MPS): while
the mount decodes, training waits. A pipefs_gpu.Decoder in each process has no turns to
take; share where the memory for several decoders is what is short.

Shapes, types, numbers and errors are those of pipefs_gpu.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import threading
import weakref

import pipefs_gpu
import pipefs_gpu_abi
import pipefs_gpu_cuda
import pipefs_gpu_l3
from pipefs_gpu import BatchError, Damaged, DeviceError, LimitError, Truncated, Unreadable, Unsupported
from pipefs_gpu_ipc import Connection, Driver, Unavailable, socket_of

__all__ = ["BatchError", "DeviceError", "Lease", "PathDataset", "SharedDecoder", "SlotsError", "Unavailable", "collate", "decoder"]

log = logging.getLogger("pipefs_gpu_shared")

_KINDS = {"damaged": Damaged, "truncated": Truncated, "unsupported": Unsupported, "unreadable": Unreadable}


class SlotsError(DeviceError):
    """All memory that the mount gives this process holds batches that were not released."""


# ---------------------------------------------------------------------------------- paths


class PathDataset(pipefs_gpu.BytesDataset):
    """A BytesDataset that reads no file: sample i is (path, number of the class)."""

    def __getitem__(self, index):
        return self.samples[index]


def collate(samples):
    """Makes a batch of PathDataset's samples: (list of paths, tensor of the numbers)."""
    import torch

    paths, numbers = zip(*samples)
    return list(paths), torch.tensor(numbers)


# ------------------------------------------------------------------------------- decoding


def _open(library, device, gpu):
    """The framework and the driver, on the mount's GPU; tests put others in their place."""
    name = f"{gpu['uuid']} ({gpu['name']}, {gpu['pci']})"
    index = Driver.index_of(gpu["uuid"])
    if index is None:
        raise Unavailable(f"the mount decodes on {name}, which this process does not see: look at CUDA_VISIBLE_DEVICES, or at --gpus of the container")
    framework = pipefs_gpu_cuda.open_framework(library, index if device is None else device, 0)
    if framework.index != index:
        raise Unavailable(f"the mount decodes on {name}, which is GPU {index} here, not {framework.index}: decode there, or have a mount with --gpu for each GPU")
    return framework, Driver(index)


class SharedDecoder:
    """The decoder of a mount, for this process; one is enough, and each takes a place of N.

    mount    the mount, or anything in it
    device   the GPU, as for pipefs_gpu.Decoder; None is the mount's. It has to be that
    library  "torch" or "cupy"; None: PyTorch if it is installed, else CuPy
    socket   where the mount listens; None: PIPEFS_GPU_SOCKET, or what .pipefs/gpu/socket says
    timeout  how many seconds the mount may take for an answer; the first batch may have to
             wait until the driver has compiled the program for the GPU

    Methods may be called by several threads. Make it in the process that trains, after
    workers were forked or with workers that are not: those keep the connection open. It
    is to be closed, or used in a `with` statement.
    """

    def __init__(self, mount, device=None, *, library=None, socket=None, timeout=120):
        self._mount = pipefs_gpu._mount_of(mount)
        self._lock, self._pid, self._dirs = threading.RLock(), os.getpid(), {}
        self._held = 0  # slots that were given, or asked for
        self._memory = {}  # slots that are open: handle, address, array
        self._leaving = []  # leases that ended: event behind their use, slot, generation
        self._released, self._dropped = [], []  # requests whose replies nobody waits for
        self._connection = c = Connection(socket or socket_of(self._mount), timeout)
        try:
            hello = c.reply(c.ask("open", pid=os.getpid()))
            self._framework, self._driver = _open(library, device, hello["device"])
            self._stream = self._framework.stream()
        except BaseException:
            # Nothing of the mount's was opened, so that the place is free at once.
            with contextlib.suppress(Unavailable):
                c.reply(c.ask("close"))
            c.close()
            raise
        self.slots, self.slot_bytes, self.gpu = hello["slots"], hello["slot_bytes"], hello["device"]
        self._end = weakref.finalize(self, _farewell, self._pid, c, self._driver, self._memory, self._framework, self._stream)

    def decode(self, paths, **options):
        """Decodes a batch; see submit. Waits until the GPU is done."""
        return self.submit(paths, **options).result()

    def submit(self, paths, *, layout="HWC", dtype=None, mean=None, std=None, size=None, errors="raise"):
        """Has the mount begin with a batch, and returns at once; `result` of what it returns waits.

        paths are of files in the mount. All else is as in pipefs_gpu.Decoder.decode.
        """
        if errors not in ("raise", "none"):
            raise ValueError(f"errors {errors!r}: raise or none")
        if os.getpid() != self._pid:
            raise DeviceError("this SharedDecoder is of the process that was forked: make it in the process that trains")
        fields, request = self._fields(layout, dtype, mean, std)
        names = [_name(p) for p in paths]
        if not names:
            return _Empty()
        with self._lock:
            self._collect()
            while self._held >= self.slots and self._leaving:
                self._collect(1)  # the GPU is behind: wait for what it uses
            number = self._connection.ask("decode", paths=[self._relative(n) for n in names], **fields)
            self._held += 1
        return _Pending(self, number, names, layout, request, None if size is None else tuple(size), errors)

    @contextlib.contextmanager
    def lease(self, paths, **options):
        """As decode, for a `with` statement, without a copy: the tensors are the mount's memory until its end."""
        lease = self.submit(paths, **options).lease()
        try:
            yield lease.pictures
        finally:
            lease.release()

    def batches(self, loader, *, copy=True, **options):
        """Decodes what a loader of paths yields, one batch ahead; options are those of submit.

        Yields a tuple: what decode returns, and the other members of the loader's batches as they
        are. Loaders of lists of paths alone give what decode returns. Without copy, tensors are
        valid until the next batch is asked for.
        """
        before = None
        for batch in loader:
            now = self._begin(batch, options)
            if before is not None:
                yield from self._yielded(copy, *before)
            before = now
        if before is not None:
            yield from self._yielded(copy, *before)

    def close(self):
        """Gives everything back to the mount. No tensor of a lease may be used after it."""
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _begin(self, batch, options):
        alone = isinstance(batch, list) and all(isinstance(p, (str, os.PathLike)) for p in batch)
        paths, rest = (batch, ()) if alone else (batch[0], tuple(batch[1:]))
        return self.submit(paths, **options), rest, alone

    @staticmethod
    def _yielded(copy, pending, rest, alone):
        if copy:
            result = pending.result()
            yield result if alone else (result, *rest)
            return
        lease = pending.lease()
        try:
            yield lease.pictures if alone else (lease.pictures, *rest)
        finally:
            lease.release()

    def _fields(self, layout, dtype, mean, std):
        """What the mount is asked for, and the name of the type that is wanted here, or None."""
        if layout not in ("HWC", "CHW"):
            raise ValueError(f"layout {layout!r}: HWC or CHW")
        name = pipefs_gpu.Decoder._dtype_name(self, dtype)
        fields = {"layout": layout}
        if name not in (None, "int32"):
            fields["dtype"] = name
        if name not in pipefs_gpu_abi.OUTPUTS:
            if mean is not None or std is not None:
                raise ValueError("mean and std are for float32 and float16")
            return fields, name
        mean, std = 0.0 if mean is None else mean, 1.0 if std is None else std
        pipefs_gpu_l3.check_factors(mean, std)
        fields["mean"], fields["std"] = pipefs_gpu_l3.numbers_of(mean, 1), pipefs_gpu_l3.numbers_of(std, 1)
        return fields, name

    def _relative(self, name):
        """A path as the mount knows it: without links, and from its root."""
        directory, base = os.path.split(os.path.abspath(name))
        if directory not in self._dirs:
            self._dirs[directory] = os.path.relpath(os.path.realpath(directory), self._mount)
        return os.path.normpath(os.path.join(self._dirs[directory], base))

    def _array(self, slot, handle):
        """The memory of a slot, opened when it is first needed."""
        if slot not in self._memory:
            address = self._driver.open_memory(handle)
            self._memory[slot] = handle, address, self._framework.foreign(address, self.slot_bytes)
        known, _, array = self._memory[slot]
        if known != handle:
            raise DeviceError(f"slot {slot} of the mount has another handle than before: a defect, please report")
        return array

    def _release(self, slot, generation):
        self._held -= 1
        self._released.append(self._connection.ask("release", slot=slot, generation=generation))

    def _collect(self, least=0):
        """Releases what the GPU is done with, and takes in the replies that nobody waits for."""
        while self._leaving and (least > 0 or self._framework.done(self._leaving[0][0])):
            event, slot, generation = self._leaving.pop(0)
            self._framework.wait(event)
            self._release(slot, generation)
            least -= 1
        while self._released and self._released[0] <= self._connection.answered:
            reply = self._connection.reply(self._released.pop(0))
            if reply.get("error"):
                log.warning("%s", reply["error"])
        while self._dropped:  # batches that were never asked for
            reply = self._connection.reply(self._dropped.pop())
            if reply.get("error"):
                self._held -= 1
            else:
                self._release(reply["slot"], reply["generation"])


def _name(path):
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{type(path).__name__}: the mount reads files by itself, so that it takes paths and no bytes; pipefs_gpu.Decoder takes both")
    return os.fspath(path)


def _farewell(pid, connection, driver, memory, framework, stream):
    """Closes what was opened, and says so: only then does the mount give it to others."""
    if os.getpid() != pid:
        return
    with contextlib.suppress(Exception):  # what fails here the mount notices when this process ends
        framework.finish(stream)
        for _, address, _ in memory.values():
            driver.close_memory(address)
        memory.clear()
        connection.reply(connection.ask("close"))
    connection.close()


class _Empty:
    """No pictures."""

    pictures = []

    def result(self):
        return []

    def lease(self):
        return self

    def release(self):
        pass


class _Pending:
    """A batch that the mount decodes, see SharedDecoder.submit."""

    def __init__(self, decoder, number, names, layout, dtype, size, policy):
        self._decoder, self._number, self._names = decoder, number, names
        self._layout, self._dtype, self._size, self._policy = layout, dtype, size, policy
        self._errors, self._places, self._reply = {}, {}, None
        self._lock, self._done = threading.Lock(), None
        self._abandon = weakref.finalize(self, decoder._dropped.append, number)
        self._abandon.atexit = False

    def result(self):
        """Waits for the batch; what pipefs_gpu.Decoder.decode returns or raises.

        The tensors are for use on the stream that is current now.
        """
        with self._lock:
            if self._done is None:
                self._done = self._copy()
        return self._judged(*self._done)

    def lease(self):
        """The same without a copy: a Lease."""
        with self._lock:
            if self._done is not None:
                raise ValueError("this batch was copied before")
            array, reply = self._receive()
            lease = Lease(self._decoder, array, reply)
            try:
                if self._needs_copy():
                    raise ValueError("int32, and 16 bits without a type for them, take a copy: use result")
                lease.pictures = self._judged(*self._views(array, self._kept_types()))
            except BaseException:
                lease.release()
                raise
            return lease

    def _receive(self):
        """Waits for the reply; returns the memory of its slot, None without pictures, and the reply."""
        d = self._decoder
        with d._lock:
            self._abandon.detach()
            reply = d._connection.reply(self._number)
            if reply.get("error"):
                d._held -= 1
                kind = {"slots": SlotsError, "large": LimitError, "gpu": Unavailable}.get(reply.get("kind"), DeviceError)
                raise kind(reply["error"])
            try:
                if len(reply["pictures"]) != len(self._names):
                    raise DeviceError(f"{len(reply['pictures'])} pictures for {len(self._names)} paths: a defect, please report")
                for i, p in enumerate(reply["pictures"]):
                    self._sort(i, p, d.slot_bytes)
                array = d._array(reply["slot"], base64.b64decode(reply["handle"])) if self._places else None
            except BaseException:
                d._release(reply["slot"], reply["generation"])
                raise
            return array, reply

    def _sort(self, i, p, room):
        """Takes in what the mount says of a picture."""
        name = self._names[i]
        if p.get("error"):
            self._errors[i] = _KINDS.get(p["kind"], pipefs_gpu.PictureError)(name, p["error"])
            return
        shape, dtype, offset = tuple(p["shape"]), p["dtype"], p["offset"]
        n = pipefs_gpu_cuda.SIZES[dtype]
        for side in shape:
            n *= side
        if len(shape) != 3 or min(shape) < 1 or offset < 0 or offset + n > room:
            raise DeviceError(f"{name}: {n} bytes at {offset} of a slot of {room}: a defect, please report")
        sides = shape[:2] if self._layout == "HWC" else shape[1:]
        if self._size is not None and self._size != sides:
            self._errors[i] = Unsupported(name, f"{sides[0]}×{sides[1]} pixels (H×W), size is {self._size[0]}×{self._size[1]}")
            return
        self._places[i] = offset, n, dtype, shape

    def _wide(self, dtype):
        """Whether samples have to become int32."""
        return self._dtype == "int32" or dtype not in self._decoder._framework.dtypes()

    def _needs_copy(self):
        return any(self._wide(dtype) for _, _, dtype, _ in self._places.values())

    def _kept_types(self):
        return [(i, offset, dtype, shape) for i, (offset, _, dtype, shape) in self._places.items()]

    def _views(self, array, places):
        """The batch as one tensor, or None; and the tensors of its pictures."""
        f = self._decoder._framework
        if not places:
            return None, {}
        _, first, dtype, shape = places[0]
        n = pipefs_gpu_cuda.SIZES[dtype]
        for side in shape:
            n *= side
        if all(p[1:] == (first + k * n, dtype, shape) for k, p in enumerate(places)):
            batch = f.typed(array, first, dtype, (len(places), *shape))
            return batch, {i: batch[k] for k, (i, *_) in enumerate(places)}
        return None, {i: f.typed(array, at, dtype, shape) for i, at, dtype, shape in places}

    def _copy(self):
        """Copies the batch to memory of this process, and gives the slot back."""
        d, f = self._decoder, self._decoder._framework
        array, reply = self._receive()
        with d._lock:
            try:
                if array is None:
                    return None, {}
                memory, places = self._copied(array)
                event = f.record(d._stream)
                f.wait(event)  # it takes no longer than a copy on the GPU
            except BaseException:
                f.finish(d._stream)  # it may be reading the slot
                raise
            finally:
                d._release(reply["slot"], reply["generation"])
            f.hand_over(memory, event)
            return self._views(memory, places)

    def _copied(self, array):
        """Queues the copy; returns its memory, and the places there."""
        d, f = self._decoder, self._decoder._framework
        end = max(offset + n for offset, n, _, _ in self._places.values())
        if not self._needs_copy():
            memory = f.output(end, d._stream)
            f.duplicate(memory, array, 0, end, d._stream)
            return memory, self._kept_types()
        places, total = [], 0
        for i, (_, n, dtype, shape) in self._places.items():
            wide = self._wide(dtype)
            places.append((i, total, "int32" if wide else dtype, shape))
            total += n * 4 // pipefs_gpu_cuda.SIZES[dtype] if wide else (n + 3) & -4
        memory = f.output(total, d._stream)
        for (i, at, kind, shape), (offset, n, dtype, _) in zip(places, self._places.values()):
            if self._wide(dtype):
                f.widen(f.typed(memory, at, kind, shape), array, offset, 8 * pipefs_gpu_cuda.SIZES[dtype], d._stream)
            else:
                f.duplicate(memory[at:at + n], array, offset, n, d._stream)
        return memory, places

    def _judged(self, batch, parts):
        """What is returned or raised."""
        if not self._errors:
            return batch if batch is not None else [parts[i] for i in range(len(self._names))]
        errors = dict(sorted(self._errors.items()))
        pictures = [None if i in errors else parts[i] for i in range(len(self._names))]
        if self._policy == "raise":
            raise BatchError(errors, pictures)
        for e in errors.values():
            log.warning("%s", e)
        return pictures


class Lease:
    """Memory of the mount with a batch: `pictures` are valid until release."""

    def __init__(self, decoder, array, reply):
        self._decoder, self._array, self._what = decoder, array, (reply["slot"], reply["generation"])
        self.pictures = None

    def release(self):
        """Gives the memory back behind all that is queued on the current stream; waits for nothing."""
        d, self.pictures = self._decoder, None
        with d._lock:
            if self._what is None:
                return
            what, self._what = self._what, None
            if self._array is None:
                d._release(*what)
                return
            d._framework.follow_caller(self._array, d._stream)
            d._leaving.append((d._framework.record(d._stream), *what))
            d._collect()


# ------------------------------------------------------------------------------- fallback


def decoder(mount, device=None, *, library=None, **options):
    """A SharedDecoder of a mount, with a pipefs_gpu.Decoder in its place from where it does not work.

    Takes the arguments of SharedDecoder. One line in the log says why it decodes by itself.
    Where there is no GPU at all, that is a DeviceError: then read another view of the mount.
    """
    return _Fallback(lambda: SharedDecoder(mount, device, library=library, **options),
                     lambda: pipefs_gpu.Decoder(device, library=library), mount)


class _Fallback:
    def __init__(self, shared, own, mount):
        self._own_decoder, self._make, self._mount = None, own, mount
        self._shared = None
        try:
            self._shared = shared()
        except Unavailable as e:
            self._own(e)

    def _own(self, why):
        """The decoder of this process."""
        if self._own_decoder is None:
            log.warning("L3 pictures are decoded in this process: %s", why)
            self._own_decoder = self._make()
        return self._own_decoder

    @property
    def shared(self):
        """Whether the mount decodes."""
        return self._own_decoder is None

    def submit(self, paths, **options):
        paths = list(paths)
        if self._own_decoder is not None:
            return self._own_decoder.submit(paths, **options)
        try:
            return _Either(self, self._shared.submit(paths, **options), paths, options)
        except Unavailable as e:
            return self._own(e).submit(paths, **options)

    def decode(self, paths, **options):
        return self.submit(paths, **options).result()

    def batches(self, loader, **options):
        options.pop("copy", None)  # what is decoded here is no copy
        before = None
        for batch in loader:
            now = SharedDecoder._begin(self, batch, options)
            if before is not None:
                yield from SharedDecoder._yielded(True, *before)
            before = now
        if before is not None:
            yield from SharedDecoder._yielded(True, *before)

    def close(self):
        if self._shared is not None:
            self._shared.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Either:
    """A batch of the mount's, or of this process if that fails."""

    def __init__(self, fallback, pending, paths, options):
        self._fallback, self._pending, self._paths, self._options = fallback, pending, paths, options

    def result(self):
        try:
            return self._pending.result()
        except Unavailable as e:
            self._pending = self._fallback._own(e).submit(self._paths, **self._options)
            return self._pending.result()
