#!/usr/bin/env python3
"""One peer in a process of its own, so that what it uses is known. run.py starts it.

It reads a request a line, and answers each with a line, both JSON:

    {"do": "versions"}                              {"torch": "2.15.0", …}
    {"do": "prepare", "src": …, "dst": …}           {"seconds": 1.2, "cpu": 2.1}
    {"do": "build", "where": …, "kind": "uint8", "seed": 7}
                                                    {"seconds": 0.1, "cpu": 0.1}
    {"do": "epoch", "daemon": 4711}                 {"start": 0.4, "images": 936, "seconds": 4.2, "cpu": 8.1,
                                                     "daemon_cpu": 0.3, "labels": [100, …]}

Whatever libraries print goes to stderr. CPU seconds are of this process, of those that
it started and of threads, user and system; daemon is the process of a file system, or 0.
The start of an epoch lasts from the first request to the first batch; images, seconds and
CPU seconds are of what comes after it, labels of all.
"""
import dataclasses
import json
import os
import resource
import sys
import time

import common


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = common.peers()[sys.argv[1]]
    row = next(r for r in peer.ROWS if r.id == sys.argv[2])
    options = common.Options(**json.loads(sys.argv[3]))
    built = None
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        if do == "versions":
            answer = peer.versions()
        elif do == "prepare":
            answer, _ = timed(lambda: peer.prepare(request["src"], request["dst"], row, options))
        elif do == "build":
            one_thread()
            built = None  # the workers of the one before end
            options = dataclasses.replace(options, kind=request["kind"])
            answer, built = timed(lambda: peer.loader(request["where"], row, options, request["seed"]))
        else:
            answer = read(built, options, request["daemon"])
        print(json.dumps(answer), file=answers, flush=True)


def timed(function):
    used, start = cpu(), time.monotonic()
    result = function()
    return {"seconds": time.monotonic() - start, "cpu": cpu() - used}, result


def read(loader, options, daemon):
    """An epoch: how long it took, and how often each label came."""
    import numpy as np
    labels = np.zeros(1, np.int64)

    def used():
        return np.array([time.monotonic(), cpu(), common.process_cpu(daemon) if daemon else 0])

    start, begun, first, images = time.monotonic(), None, 0, 0
    for pictures, classes in loader:
        classes = np.asarray(classes).reshape(-1)
        if len(pictures) != len(classes) or tuple(pictures.shape[1:]) not in common.SHAPES[options.kind]:
            raise common.Failed(f"a batch of {tuple(pictures.shape)} with {len(classes)} labels")
        images += len(classes)
        if begun is None:
            check(pictures, options)
            begun, first = used(), images
        counts = np.bincount(classes, minlength=len(labels))
        counts[:len(labels)] += labels
        labels = counts
    if images == first:
        raise common.Failed(f"an epoch of {images} samples is no more than a batch: nothing is left to measure")
    seconds, cpu_seconds, daemon_cpu = (used() - begun).tolist()
    return {"start": float(begun[0]) - start, "images": images - first, "seconds": seconds, "cpu": cpu_seconds,
            "daemon_cpu": daemon_cpu, "labels": labels.tolist()}


def check(pictures, options):
    """That a batch is what a network is fed with: pictures, as bytes or as floats between 0 and 1."""
    import numpy as np
    if len(pictures) > options.batch:
        raise common.Failed(f"a batch of {len(pictures)}, wanted {options.batch}")
    array = np.asarray(pictures[:8])
    if array.dtype != options.kind:
        raise common.Failed(f"a batch of {array.dtype}, wanted {options.kind}")
    if options.kind == "uint8":
        array = array / 255
    low, high = float(array.min()), float(array.max())
    if not (-0.01 <= low < high <= 1.01 and high > 0.1 and array.std() > 0.01):
        raise common.Failed(f"pixels between {low} and {high}: no pictures between 0 and 1")


def one_thread():
    """Threads of operators beside workers would be threads too many."""
    if "torch" in sys.modules or sys.argv[1] != "tfdata":
        import torch
        torch.set_num_threads(1)


def cpu():
    """Seconds of this process, of its children that have ended and of those that run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + sum(map(common.process_cpu, descendants(os.getpid())))


def descendants(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                children = f.read().split()
        except OSError:
            continue  # it has just ended
        for child in children:
            found += [child, *descendants(child)]
    return found


if __name__ == "__main__":
    try:
        main()
    except common.Failed as e:
        sys.exit(f"{sys.argv[1]}: {e}")
