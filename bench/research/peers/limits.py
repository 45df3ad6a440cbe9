"""A slower disk and less memory, for the loader and the file systems that it reads from."""
import contextlib
import os
import subprocess

import common


def add_arguments(ap):
    ap.add_argument("--disk", type=int, default=0, metavar="MB/S", help="read no faster than that from the disk")
    ap.add_argument("--memory", type=int, default=0, metavar="MB",
                    help="what loader, daemon and the page cache of what they read may have together")


def words(args):
    told = [f"{args.disk} MB/s from the disk"] if args.disk else []
    return told + ([f"{args.memory:,} MB of memory"] if args.memory else [])


@contextlib.contextmanager
def applied(args, directory):
    """Puts this process, and so what it starts, into a cgroup of its own."""
    if not words(args):
        yield
        return
    process = subprocess.Popen(
        [os.environ.get("GO") or "go", "-C", os.path.join(common.ROOT, "bench/research"), "run", "./peers/limit", "--disk", str(args.disk),
         "--memory", str(args.memory), "--process", str(os.getpid()), os.path.abspath(directory)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        if not process.stdout.readline():
            raise common.Failed(common.last_lines(process.stderr.read()))
        yield
    finally:
        process.communicate()  # the end of its input
