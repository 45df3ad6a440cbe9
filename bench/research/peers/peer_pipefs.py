"""pipefs: views of the dataset, read by ImageFolder. Each mount starts with an empty cache."""
import json
import os

import common

ROWS = [
    common.Row("pipefs-original", "pipefs original/", prepared=False),
    common.Row("pipefs-ppm", "pipefs ppm/", prepared=False,
               note="mounted over the dataset, nothing prepared: the first epoch decodes, later ones read pixels"),
    common.Row("pipefs-ppm-stored", "pipefs ppm/, stored", note="packed; `materialize ppm` keeps the pixels on disk"),
    common.Row("pipefs-scan5", "pipefs scan5/, packed", same=False, note="five of ten scans: a coarser picture, half the bytes to read"),
    common.Row("pipefs-resize256", "pipefs resize256-ppm/, stored", same=False,
               note="the shorter side is 256 before the random crop; packed, `materialize resize256-ppm`"),
]
VIEWS = {"pipefs-original": "original", "pipefs-ppm": "ppm", "pipefs-ppm-stored": "ppm",
         "pipefs-scan5": "scan5", "pipefs-resize256": "resize256-ppm"}


def prepare(src, dst, row, options):
    store = os.path.join(dst, "store")
    env = environment(options)
    common.run([options.pipefs, "pack", src, store], env)
    if row.id != "pipefs-scan5":
        common.run([options.pipefs, "materialize", store, VIEWS[row.id]], env)


def mount(src, dst, mnt, row, options):
    env = {**environment(options), "XDG_RUNTIME_DIR": mnt + ".run"}  # sockets want short paths
    os.makedirs(mnt, exist_ok=True)
    os.makedirs(mnt + ".run", mode=0o700, exist_ok=True)
    source = os.path.join(dst, "store") if row.prepared else src
    common.run([options.pipefs, "mount", "--log-file", mnt + ".log", source, mnt], env)
    mounted = common.Mount(mnt, os.path.join(mnt, VIEWS[row.id]), 0, unmount=[options.pipefs, "umount", mnt], env=env)
    try:
        mounted.pid = json.loads(common.run([options.pipefs, "stats", "--json", mnt], env))["pid"]
    except BaseException:
        mounted.close()
        raise
    return mounted


def environment(options):
    """With what pipefs keeps by itself below the work directory, which each mount finds empty."""
    return {**os.environ, "XDG_CACHE_HOME": os.path.join(options.work, "cache"),
            "XDG_STATE_HOME": os.path.join(options.work, "state")}


def loader(where, row, options, seed):
    return common.imagefolder(where, options, seed)


def mount_versions(options):
    return {"pipefs": common.run([options.pipefs, "version"]).split()[1]}


versions = common.torch_versions
