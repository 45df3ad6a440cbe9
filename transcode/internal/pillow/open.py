"""Open the files listed in argv[1] and write to argv[2], for each: a line of
JSON, and the array's bytes. They are converted to the mode in argv[3], if it is there."""

import base64
import json
import sys
import warnings

import numpy as np
from PIL import Image

warnings.simplefilter("ignore")


def describe(path):
    if path.endswith(".npy"):
        a = np.load(path, mmap_mode="r")
        return {"Mode": "npy"}, np.ascontiguousarray(a)
    with Image.open(path) as im:
        about = {
            "Mode": im.mode,
            "Animated": bool(getattr(im, "is_animated", False)),
        }
        about["Orientation"] = int(im.getexif().get(0x0112, 0))
        a = np.ascontiguousarray(np.asarray(im.convert(sys.argv[3]) if sys.argv[3:] else im))
        if a.dtype == bool:  # Pillow's true is 255
            a = a.view(np.uint8) != 0
        about["Transparency"] = "transparency" in im.info
        if im.mode == "P":
            rgb = (im.getpalette() + [0] * 768)[:768]
            alpha = im.info.get("transparency", b"")
            if isinstance(alpha, int):
                alpha = b"\xff" * alpha + b"\0"
            alpha = (alpha + b"\xff" * 256)[:256]
            rgba = b"".join(bytes(rgb[3 * i : 3 * i + 3]) + alpha[i : i + 1] for i in range(256))
            about["Palette"] = base64.b64encode(rgba).decode()
        return about, a


with open(sys.argv[2], "wb") as out:
    for path in open(sys.argv[1]).read().split("\n"):
        try:
            about, a = describe(path)
        except Exception as e:
            about, a = {"Error": f"{type(e).__name__}: {e}"}, None
        if a is not None:
            about["Shape"] = list(a.shape)
            about["DType"] = a.dtype.str
        out.write(json.dumps(about).encode() + b"\n")
        if a is not None:
            out.write(a.tobytes())
