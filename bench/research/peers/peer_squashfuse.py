"""squashfuse: the tree in one SquashFS file, read by ImageFolder."""
import os
import shutil
import subprocess

import common

ROWS = [common.Row("squashfuse", "squashfuse", named=True, note="data not compressed, since JPEG and PNG do not shrink (mksquashfs -noD -noF)")]


def prepare(src, dst, row, options):
    common.run(["mksquashfs", src, os.path.join(dst, "tree.squashfs"), "-noD", "-noF", "-no-xattrs", "-no-progress",
                "-processors", str(options.workers)])


def program():
    """The one of FUSE's low-level interface, which is the faster."""
    return shutil.which("squashfuse_ll") or "squashfuse"


def mount(src, dst, mnt, row, options):
    return common.mount_in_foreground([program(), "-f", os.path.join(dst, "tree.squashfs"), mnt], mnt, mnt + ".log")


def loader(where, row, options, seed):
    return common.imagefolder(where, options, seed)


def missing():
    absent = [c for c in ("mksquashfs", "squashfuse") if not shutil.which(c)]
    return f"no {' and no '.join(absent)}: install squashfuse and squashfs-tools" if absent else ""


def mount_versions(options):
    told = subprocess.run([program(), "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return {"squashfuse": (told.stdout.split() + ["?"] * 2)[1]}


versions = common.torch_versions
