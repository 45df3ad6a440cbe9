"""Mounts, unmounts and kills in random order, and nothing is left: chaos.py DATASET TIMES [SEED]."""

import os
import random
import signal
import subprocess
import sys
import time

import pipefs

dataset, times = sys.argv[1], int(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 1_000_000
print(f"seed {seed}", flush=True)
draw = random.Random(seed)
here = os.path.dirname(os.path.abspath(__file__))
done = {}


class Holder:
    """A process that holds a mount."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(here, "holder.py"), dataset, str(draw.randint(1, 3))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a holder could not mount; it ended with {self.process.wait()}")
        pid, self.mount = line.split()
        self.daemon, self.workers, self.closed = int(pid), [], False

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def ask(self, word):
        self.tell(word)
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        holders.remove(self)
        orphans.extend(self.workers)


holders, orphans, dead = [], [], set()


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def act(what):
    """Does one thing; False where there is nothing to do it with."""
    if what == "mount":
        holders.append(Holder())
    elif what == "orphan":
        kill(orphans.pop(draw.randrange(len(orphans))))
    else:
        h = draw.choice(holders)
        if what == "close":
            assert h.ask("close") == "closed"
            h.closed = True
        elif what == "exit":
            h.tell("exit")
            h.end()
        elif what == "kill":
            kill(h.process.pid)
            h.end()
        elif what == "fork":
            h.workers.append(int(h.ask("fork")))
        elif what == "worker":
            if not h.workers:
                return False
            kill(h.workers.pop())
        elif what == "daemon":
            if h.closed or h.daemon in dead:  # its number may be another process by now
                return False
            kill(h.daemon)
            dead.add(h.daemon)
    return True


while sum(done.values()) < times:
    choices = ["mount", "mount"]
    if holders:
        choices += ["close", "exit", "kill", "fork", "worker", "daemon"]
    if orphans:
        choices.append("orphan")
    if len(holders) > 6:
        choices = ["exit", "kill"]
    what = draw.choice(choices)
    done[what] = done.get(what, 0) + act(what)
    for h in holders:  # nobody has lost a mount, whatever became of its daemon
        if not h.closed:
            assert os.path.exists(os.path.join(h.mount, "original", "a", "0.jpg")), (what, h.mount)
for h in list(holders):
    orphans.extend(h.workers)
    h.workers = []
    draw.choice([lambda: h.tell("exit"), lambda: kill(h.process.pid)])()
    h.end()
for pid in orphans:
    kill(pid)
with pipefs.mount(dataset):  # takes away what killed daemons have left
    pass
print(", ".join(f"{n} {what}" for what, n in sorted(done.items())))
