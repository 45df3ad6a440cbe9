# Writes pairs of pictures into a directory, and prints for each pair its
# similarity, computed the plain way: the window in two dimensions, five filters,
# whole pictures at each level.
import io, json, os, sys
import numpy as np
from PIL import Image, ImageFilter

out = sys.argv[1]
rng = np.random.default_rng(3)
WEIGHTS = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333]


def terms(x, y):
    at = np.arange(11) - 5
    g = np.exp(-(at[:, None] ** 2 + at[None, :] ** 2) / (2 * 1.5**2))
    g /= g.sum()
    high, wide = x.shape[1] - 10, x.shape[2] - 10
    mean = lambda v: sum(g[i, j] * v[:, i : i + high, j : j + wide] for i in range(11) for j in range(11))
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    contrast = (2 * cov + c2) / (vx + vy + c2)
    luminance = (2 * mx * my + c1) / (mx * mx + my * my + c1)
    return contrast.mean(), (luminance * contrast).mean()


def halve(x):
    x = np.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2)], mode="symmetric")
    return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4


def similarity(a, b):
    x, y = (np.asarray(im, dtype=np.float64) for im in (a, b))
    if x.ndim == 2:
        x, y = x[..., None], y[..., None]
    x, y = (np.ascontiguousarray(v.transpose(2, 0, 1)) for v in (x, y))
    product = 1.0
    for level, weight in enumerate(WEIGHTS):
        contrast, both = terms(x, y)
        product *= max(0.0, both if level == 4 else contrast) ** weight
        x, y = halve(x), halve(y)
    return product


def picture(w, h, mode):
    y, x = np.mgrid[0:h, 0:w]
    planes = []
    for c in range(3 if mode == "RGB" else 1):
        a = 120 + 60 * np.sin(x / (7 + 3 * c)) * np.cos(y / (11 + c)) + 40 * ((x // 24 + y // (16 + 5 * c)) % 2)
        planes.append(a + rng.normal(0, 6, (h, w)))
    a = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    return Image.fromarray(a if mode == "RGB" else a[..., 0], mode)


def jpeg(quality, **more):
    def distort(im):
        b = io.BytesIO()
        im.save(b, "JPEG", quality=quality, **more)
        return Image.open(io.BytesIO(b.getvalue())).convert(im.mode)
    return distort


def each(f):
    return lambda im: Image.fromarray(np.clip(f(np.asarray(im, dtype=np.float64)), 0, 255).astype(np.uint8), im.mode)


DISTORTIONS = {
    "jpeg10": jpeg(10),
    "jpeg50": jpeg(50),
    "jpeg95": jpeg(95, subsampling=0),
    "blur1": lambda im: im.filter(ImageFilter.GaussianBlur(1)),
    "blur5": lambda im: im.filter(ImageFilter.GaussianBlur(5)),
    "noise10": each(lambda a: a + rng.normal(0, 10, a.shape)),
    "noise60": each(lambda a: a + rng.normal(0, 60, a.shape)),
    "brighter": each(lambda a: a + 30),
    "flat": each(lambda a: 0 * a + 128),
    "black": each(lambda a: 0 * a),
    "negative": each(lambda a: 255 - a),
    "one": each(lambda a: np.where(a > 254, 254, a + 1)),
}

EVERY = list(DISTORTIONS)
for w, h, mode, names in [
    (176, 176, "RGB", EVERY),
    (177, 191, "L", EVERY),
    (205, 181, "RGB", EVERY),
    (500, 375, "RGB", ["jpeg10"]),
    (321, 481, "L", ["blur5"]),
]:
    original = picture(w, h, mode)
    for name in names:
        other = DISTORTIONS[name](original)
        stem = f"{w}x{h}_{mode}_{name}"
        for suffix, im in [("a", original), ("b", other)]:
            open(os.path.join(out, stem + "." + suffix), "wb").write(im.tobytes())
        print(json.dumps({"Name": stem, "Mode": mode, "Width": w, "Height": h, "Want": similarity(original, other)}))
