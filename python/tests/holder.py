"""Holds a mount, and does what it is told, a word a line: holder.py DATASET FIDELITY."""

import os
import signal
import sys

import pipefs

m = pipefs.mount(sys.argv[1], fidelity=int(sys.argv[2]), no_background=True, deaths=1000)
with open(os.path.join(m.path("original"), "a", "0.jpg"), "rb") as f:
    assert f.read(2) == b"\xff\xd8"
print(m.stats()["pid"], m.mountpoint, flush=True)
for word in sys.stdin:
    if word == "fork\n":
        pid = os.fork()
        if pid == 0:
            signal.pause()
        print(pid, flush=True)
    elif word == "close\n":
        m.close()
        print("closed", flush=True)
    else:
        break
