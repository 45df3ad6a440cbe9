"""Whether two stores are the same, byte for byte."""

import filecmp
import json
import os

# What a commit writes has the name of its run in it: a random number.
COMMIT = ("CURRENT", "generations")


def same(a, b):
    """The names that both stores have, if they have the same names, bytes, and packs that count."""
    names = _names(a)
    assert names == _names(b), set(names) ^ set(_names(b))
    different = [name for name in names if not filecmp.cmp(f"{a}/{name}", f"{b}/{name}", shallow=False)]
    assert not different, different
    assert _generations(a) == _generations(b), (a, b)
    return names


def _names(root):
    found = (os.path.relpath(os.path.join(at, name), root) for at, _, files in os.walk(root) for name in files)
    return sorted(name for name in found if name.split("/")[0] not in COMMIT)


def _generations(root):
    """What the generations say, but for who wrote them."""
    said = []
    for at, _, names in sorted(os.walk(f"{root}/generations")):
        for name in sorted(names):
            with open(os.path.join(at, name), encoding="utf-8") as f:
                generation, _ = json.JSONDecoder().raw_decode(f.read())
            said.append({key: value for key, value in generation.items() if key != "writer"})
    return said
