"""Judges skip=True of EpochView and RandomView, and replacement: check_skip.py DATASET"""

import os
import sys

import numpy as np
import pipefs

dataset = sys.argv[1]
bad = sorted(os.path.join("class00", name) for name in os.listdir(os.path.join(dataset, "class00")))[:2]
for name in bad:
    os.truncate(os.path.join(dataset, name), 100)
samples = sorted((os.path.join(c, name), int(c[-2:])) for c in os.listdir(dataset) if c.startswith("class") for name in os.listdir(os.path.join(dataset, c)))


def refused(what, f):
    try:
        f()
    except pipefs.Error as e:
        assert what in str(e), e
    else:
        raise AssertionError(what)


with pipefs.mount(dataset) as m:
    refused('on_error="black"', lambda: pipefs.EpochView(m, "rrc64-npy", skip=True))
    refused('on_error="black"', lambda: pipefs.RandomView(m, "rrc64-npy", samples, skip=True))

with pipefs.mount(dataset, on_error="black", on_error_limit="10%") as m:
    data = pipefs.EpochView(m, "rrc64-npy", batch=8, skip=True)
    batches = [(x, y) for x, y in data]
    assert sum(len(x) for x, _ in batches) == len(samples) - 2 and all(len(x) == len(y) and x.any(axis=(1, 2, 3)).all() for x, y in batches)
    data = pipefs.RandomView(m, "rrc64-npy", samples, skip=True)
    assert len(data.__getitems__(range(len(samples)))) == len(samples) - 2
    refused("none of the 1 samples", lambda: data.__getitems__([samples.index((bad[0], 0))]))

with pipefs.mount(dataset, on_error="black", on_error_limit="1%") as m:
    data = pipefs.RandomView(m, "rrc64-npy", samples, skip=True)
    refused("more than --on-error-limit 1%", lambda: data.__getitems__(range(len(samples))))

with pipefs.mount(dataset, on_error="replace", on_error_limit="10%") as m:
    data = pipefs.RandomView(m, ["rrc64-npy", "rrc64-npy"], samples, seed=3)
    for i, (name, label) in enumerate(samples):
        (a, b), y = data[i]
        drawn = [pipefs.draw(data.path(i, n)).sample for n in (0, 1)]
        assert y == label and not np.array_equal(a, b) and drawn[0] == drawn[1] and drawn[0][:7] == name[:7] and (drawn[0] == name) == (name not in bad)
