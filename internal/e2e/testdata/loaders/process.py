"""A loader in a process of its own, harness.py, with a limit of time for all that it does."""
import json
import os
import signal
import subprocess
import threading

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
START, JOB = 300, 120  # seconds that a loader may take to start, and for one directory


class Failed(Exception):
    """The process ended, or had to be ended."""


class Loader:
    """The process is started when it is asked, and again after it died, three times in all."""

    def __init__(self, script, python, work):
        self.script, self.python, self.work = script, python, work
        self.versions, self.process, self.failures = {}, None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        home = os.path.join(self.work, "home")
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(self.work, self.script + ".log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.python, os.path.join(HERE, "harness.py"), os.path.join(HERE, self.script)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "HOME": home, "TMPDIR": self.work, "YOLO_CONFIG_DIR": home, "YOLO_OFFLINE": "true", "HF_HUB_OFFLINE": "1",
                     "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"})
        self.versions = self.answer(START)["versions"]

    def stop(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)  # and what it may have started
            self.process.communicate()
            self.process = None

    def answer(self, limit):
        late = threading.Event()

        def end():
            late.set()
            self.process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        with open(os.path.join(self.work, self.script + ".log"), encoding="utf-8", errors="replace") as log:
            last = " ".join(log.read().strip().splitlines()[-1:])
        self.stop()
        raise Failed(f"took longer than {limit} s" if late.is_set() else f"the process ended: {last}")

    def read(self, row, view):
        """What a row finds in a view: name, label and array of each sample, and its error or None."""
        if len(self.failures) == 3:
            return [], self.failures[-1]
        out = os.path.join(self.work, "pictures.npz")
        try:
            if self.process is None:
                self.start()
            self.process.stdin.write(json.dumps({"row": row, "view": view, "out": out}) + "\n")
            self.process.stdin.flush()
            answer = self.answer(JOB)
        except (Failed, OSError) as e:
            self.stop()
            self.failures.append(str(e))
            return [], str(e)
        with np.load(out) as arrays:
            return [(name, label, arrays[f"arr_{i}"]) for i, (name, label) in enumerate(answer["samples"])], answer.get("error")
