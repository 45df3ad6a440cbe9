"""Reads files as a training does: train_like.py SECONDS WORKERS TRANSFORM STEP DIRECTORY...

Workers read batches of 16 files of one directory after the other and compute for TRANSFORM ms with each file.
The process that started them takes the batches in order, and sleeps for STEP ms with each. WORKERS 0 reads in
the process that trains. After so many seconds it says so, and goes on until it is killed with its group."""

import multiprocessing
import os
import random
import sys
import time

BATCH, AHEAD = 16, 2


def load(files, transform):
    for name in files:
        with open(name, "rb") as f:
            f.read()
        until = time.thread_time() + transform / 1000
        while time.thread_time() < until:
            pass


def work(asked, loaded, transform):
    for files in iter(asked.get, None):
        load(files, transform)
        loaded.put(len(files))


def batches(directories):
    listed = {}
    for k, directory in enumerate(directories):
        if directory not in listed:
            listed[directory] = sorted(os.path.join(d, f) for d, _, names in os.walk(directory) for f in names)
        files = listed[directory][:]
        random.Random(k).shuffle(files)
        for i in range(0, len(files), BATCH):
            yield files[i:i + BATCH]


def main():
    seconds, workers, transform, step = (float(a) for a in sys.argv[1:5])
    end, workers = time.monotonic() + seconds, int(workers)
    todo = batches(sys.argv[5:])
    pipes = []
    for _ in range(workers):
        asked, loaded = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
        multiprocessing.Process(target=work, args=(asked, loaded, transform), daemon=True).start()
        pipes.append((asked, loaded))
        for _ in range(AHEAD):
            asked.put(next(todo, []))
    turn = 0
    for files in todo:
        if end and time.monotonic() >= end:
            print("so much", flush=True)
            end = None
        if pipes:
            asked, loaded = pipes[turn % workers]
            loaded.get()
            asked.put(files)
            turn += 1
        else:
            load(files, transform)
        time.sleep(step / 1000)


main()
