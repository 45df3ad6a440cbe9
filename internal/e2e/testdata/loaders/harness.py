#!/usr/bin/env python3
"""Run one loader: harness.py use_NAME.py

Reads jobs from standard input, one line of JSON each, {"row": FUNCTION, "view": DIR, "out": FILE},
and answers each with a line. The function yields path, label and picture of each sample; the
pictures go into FILE (npz). The answer has "samples", a list of path and label in the order of
FILE's arr_0, arr_1, … If the function raises, the answer has "error", too. The first answer, to
no job, has "versions".
"""
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np


def run(function, view, out):
    samples, arrays, answer = [], [], {}
    try:
        for path, label, picture in function(view):
            label = label if isinstance(label, str) else label.item() if hasattr(label, "item") else int(label)
            samples.append((os.path.relpath(os.path.realpath(os.path.join(view, path)), os.path.realpath(view)), label))
            arrays.append(np.asarray(picture))
    except Exception as e:  # whatever a loader raises is what the table is about
        answer["error"] = f"{type(e).__name__}: {e}".replace(os.getcwd() + os.sep, "")
    np.savez(out, *arrays)
    return {"samples": samples, **answer}


def main(script):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what loaders print is no answer
    spec = importlib.util.spec_from_file_location("loader", script)
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    answer = {"versions": {p: importlib.metadata.version(p) for p in loader.PACKAGES}}
    while True:
        print(json.dumps(answer), file=answers, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        job = json.loads(line)
        with tempfile.TemporaryDirectory() as scratch:  # where the loader may write
            os.chdir(scratch)
            answer = run(getattr(loader, job["row"]), job["view"], job["out"])
            os.chdir("/")


if __name__ == "__main__":
    main(sys.argv[1])
