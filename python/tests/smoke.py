"""What a mount does, by the standard library alone: smoke.py DATASET."""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings

import pipefs

dataset = sys.argv[1]
logging.basicConfig(format="%(message)s")


def expect(error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except pipefs.Error as e:
        assert error in str(e), f"{e!r} instead of {error!r}"
        return e
    raise AssertionError(f"no error, instead of {error!r}")


def first(root, ending=""):
    """The bytes of the first file below a directory, of those that end so."""
    for at, _, names in sorted(os.walk(root)):
        for name in sorted(n for n in names if n.endswith(ending)):
            with open(os.path.join(at, name), "rb") as f:
                return f.read()
    raise AssertionError(f"{root} has no file")


def worker(m, results):
    """A process with a copy of the mount."""
    data = first(m.path("original"))
    m.close()
    results.put((m.mountpoint, m.closed, len(data)))


def mounted(path):
    with open("/proc/mounts") as f:
        return any(line.split()[1] == path for line in f)


def main():
    warnings.simplefilter("error")
    with pipefs.mount(dataset, cache="32MB", list_view=["half-bmp", "grey-bmp"], no_background=True) as m:
        assert os.path.ismount(m.mountpoint) and str(m) == f"<pipefs.Mount {m.mountpoint}>", m
        assert m.path("scan5") == m.mountpoint + "/scan5"
        assert first(m.path("original")) == first(dataset) and first(m.path("bmp"), ".bmp")[:2] == b"BM"
        assert {"half-bmp", "grey-bmp"} <= set(os.listdir(m.mountpoint))
        assert m.fidelity() == "scan10" and m.fidelity(3) == "scan3" and m.fidelity() == "scan3"
        assert os.readlink(m.path("current")) == "scan3"
        stats = m.stats()
        assert stats["source"] == dataset and stats["mount"] == m.mountpoint and stats["counters"], stats
        e = expect('unknown step "rezise256"', m.path, "scan5-rezise256")
        assert "\n    scan5-rezise256\n          ^^^^^^^^^" in str(e), e
        expect("from 1 to 10", m.fidelity, 11)

        again = pipefs.mount(dataset, cache="32MB", list_view=["half-bmp", "grey-bmp"], no_background=True)
        assert again.stats()["pid"] == stats["pid"]
        again.close()
        again.close()
        expect("is closed", again.path, "bmp")
        expect("cannot be pickled", pickle.dumps, again)
        with pipefs.mount(dataset, fidelity=5) as other:
            assert other.mountpoint != m.mountpoint and other.fidelity() == "scan5"

        for how in ["fork", "forkserver", "spawn"]:
            context = multiprocessing.get_context(how)
            results = context.SimpleQueue()
            processes = [context.Process(target=worker, args=(m, results)) for _ in range(2)]
            for p in processes:
                p.start()
            for p in processes:
                assert results.get() == (m.mountpoint, True, len(first(m.path("original"))))
            for p in processes:
                p.join()
                assert p.exitcode == 0, (how, p.exitcode)
            first(m.path("original"))

        places = []
        threads = [threading.Thread(target=lambda: places.append(pipefs.mount(dataset, fidelity=2))) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len({p.stats()["pid"] for p in places}) == 1 and len(places) == 8, places
        for p in places:
            p.close()
    assert not mounted(m.mountpoint), "it is closed, and still there"

    said, held = [], pipefs.mount(dataset, fidelity=6)
    logging.getLogger("pipefs").addFilter(lambda record: said.append(record.getMessage()) or False)
    child = os.fork()
    if child == 0:
        signal.pause()
    held.close()
    assert mounted(held.mountpoint) and str(child) in said[0] and held.mountpoint in said[0], said
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    logging.getLogger("pipefs").filters.clear()

    e = expect("unknown", pipefs.mount, dataset, cach="1GB")
    assert e.code == 1, e.code
    expect("leave out one", pipefs.mount, dataset, cache="1GB", cache_bytes="2GB")
    expect("there is no dataset", pipefs.mount, dataset + "/none")
    expect("leave out --foreground", pipefs.mount, dataset, foreground=True)
    at = os.path.join(os.environ["HOME"], "mnt")
    os.makedirs(at, exist_ok=True)
    kept = pipefs.mount(dataset, at, cache=1 << 20)  # ends with the process
    assert kept.mountpoint == at and mounted(at)
    del kept
    assert mounted(at)
    print(f"Python {sys.version.split()[0]}: pipefs {pipefs.__version__}")


if __name__ == "__main__":
    main()
