"""Tells a mount how long a training waits: check_timed.py MNT WAIT WORK, both in ms."""

import sys
import time

import pipefs

mnt, wait, work = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])


def loader():
    for i in range(12):
        time.sleep(wait / 1000)
        yield i


seen = []
for i in pipefs.timed(loader(), mnt):
    seen.append(i)
    time.sleep(work / 1000)
assert seen == list(range(12)), seen
assert len(pipefs.timed([1, 2], mnt + "/original")) == 2
for i in pipefs.timed([1, 2], mnt):
    break  # what was not finished is no step
try:
    pipefs.timed([], "/")
except pipefs.Error as e:
    assert "name one" in str(e), e
else:
    raise SystemExit("no mount was meant, and that is no error")
