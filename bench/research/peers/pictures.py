"""The pictures that are read: a tree that was given, or one that is made of it and kept
from one run to the next."""
import hashlib
import os
import shutil

import common

CLASSES = 10  # of pictures that have none


def tree(args, say):
    """The directory that args ask for."""
    top = os.path.abspath(args.pictures) if args.pictures else generated(*((130, 130) if args.check else (1000, CLASSES)), args.out, say)
    classes = any(e.is_dir() for e in os.scandir(top))
    if classes and args.copies == 1 and not args.png:
        return top
    found = sorted(os.path.relpath(path, top) for path, _ in common.samples(top)[0]) if classes else sorted(
        e.name for e in os.scandir(top) if e.name.lower().endswith(common.EXTENSIONS))
    if not found:
        raise common.Failed(f"{top}: no pictures")
    told = [(name, os.stat(os.path.join(top, name)).st_size, os.stat(os.path.join(top, name)).st_mtime_ns) for name in found]
    made = os.path.join(args.out, f"pictures-{hashlib.sha256(repr((top, told, args.copies, args.png)).encode()).hexdigest()[:8]}")
    if not os.path.exists(made):
        say(f"copying {len(found)} pictures {args.copies} times" + (", as PNG" if args.png else ""))
        shutil.rmtree(made + ".partial", ignore_errors=True)
        for i, name in enumerate(found):
            of, _, rest = name.partition(os.sep) if classes else (f"class-{i * CLASSES // len(found)}", "", name)
            copied(os.path.join(top, name), os.path.join(made + ".partial", of, rest.replace(os.sep, "-")), args)
        os.rename(made + ".partial", made)
    return made


def copied(path, to, args):
    """Files of their own, not links: these would share pages, and be one file to what goes by inodes."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    stem, extension = os.path.splitext(to)
    for i in range(args.copies):
        to = f"{stem}-{i:02d}{'.png' if args.png else extension}"
        if not args.png or path.lower().endswith(".png"):
            shutil.copyfile(path, to)
        elif i == 0:
            common.run([args.pipefs, "convert", path, to])
            path = to


def generated(samples, classes, out, say):
    """Pictures of our own."""
    directory = os.path.join(out, f"pictures-{samples}-{classes}")
    if not os.path.exists(directory):
        say(f"generating {samples} pictures")
        shutil.rmtree(directory + ".partial", ignore_errors=True)
        common.run([os.environ.get("GO") or "go", "-C", common.ROOT, "run", "./internal/pictures/genset", "-samples", str(samples),
                    "-classes", str(classes), directory + ".partial"])
        os.rename(directory + ".partial", directory)
    return directory
