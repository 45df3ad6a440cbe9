"""Interrupts a run of pipefs.ray while a destructor of Ray runs, where Python drops exceptions. A stand-in takes the place of Ray."""
import os
import signal
import sys

from pipefs.ray import _Bar, _interrupt, _Run


class Reference:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        for _ in range(1000):  # the handler runs here
            pass


class Ray:
    """A cluster whose tasks never end. The interrupt comes once, in the first wait."""

    def __init__(self, number):
        self.number, self.waits = number, 0

    def wait(self, refs, num_returns, timeout):
        self.waits += 1
        if self.waits == 1:
            Reference(self.number)
        if self.waits > 20:
            sys.exit("the interrupt was lost")
        return [], refs

    def cancel(self, ref):
        self.running = False


for number in signal.SIGINT, signal.SIGTERM:
    before = signal.default_int_handler if number == signal.SIGINT else _interrupt
    signal.signal(number, before)
    ray = Ray(number)
    try:
        _Run([1, 2], 2, 0, _Bar(False), False).start(ray, lambda shard: shard)
        sys.exit("the run ended")
    except KeyboardInterrupt:
        pass
    assert signal.getsignal(number) is before
