"""ratarmount: the tree in one tar with an index beside it, read by ImageFolder."""
import os

import common

ROWS = [common.Row("ratarmount", "ratarmount", named=True, note="a plain tar, its index made beforehand")]
IMPORTS = ["ratarmount", "ratarmountcore"]


def prepare(src, dst, row, options):
    common.run(["tar", "-C", src, "--sort=name", "-cf", os.path.join(dst, "tree.tar"), "."])
    mount(src, dst, os.path.join(options.work, "index"), row, options).close()


def mount(src, dst, mnt, row, options):
    return common.mount_in_foreground(
        [os.path.join(options.venv, "bin", "ratarmount"), "-f", "--index-file", os.path.join(dst, "index.sqlite"),
         os.path.join(dst, "tree.tar"), mnt], mnt, mnt + ".log")


def loader(where, row, options, seed):
    return common.imagefolder(where, options, seed)


def mount_versions(options):
    return {"ratarmount": common.run([os.path.join(options.venv, "bin", "ratarmount"), "--version"]).split()[1]}


versions = common.torch_versions
