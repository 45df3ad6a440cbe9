#!/usr/bin/env python3
"""Encode and decode files with Pillow, one request a line.

{"do": "encode", "src": PATH, "dst": PATH, "format": NAME, "options": {}} answers
{"bytes": N}. {"do": "decode", "files": [PATH...]} reads and decodes them one after the
other, and answers {"seconds": S}. {"do": "about"} answers {"about": TEXT}. What fails
answers {"error": TEXT}.
"""
import json
import os
import sys
import time

from PIL import Image, features


def encode(q):
    with Image.open(q["src"]) as m:
        m.convert("RGB").save(q["dst"], q["format"], **(q.get("options") or {}))
    return {"bytes": os.stat(q["dst"]).st_size}


def decode(q):
    start = time.monotonic()
    for path in q["files"]:
        with Image.open(path) as m:
            m.convert("RGB").load()
    return {"seconds": time.monotonic() - start}


def about(_):
    import PIL
    parts = [f"{name} {features.version(name)}" for name in ("jpg", "zlib", "webp", "jpg_2000") if features.check(name)]
    return {"about": f"Pillow {PIL.__version__} ({', '.join(parts)})"}


def main():
    for line in sys.stdin:
        q = json.loads(line)
        try:
            answer = {"encode": encode, "decode": decode, "about": about}[q["do"]](q)
        except Exception as e:  # whatever it is, the other side has to hear of it
            answer = {"error": f"{q.get('src', q['do'])}: {e!r}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
