"""Writes the Parquet files beside it, as current releases of pyarrow do. Usage: python3 write.py

TestParquet makes the same bytes: those of row i of a split are content(split, i).
"""
import base64
import hashlib
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ["zebra", "ant", "a/b", "10", "2", "Dog", "yak", "ox", "eel", "bee", "..", "owl"]
HERE = os.path.dirname(os.path.abspath(__file__))


def content(split, i):
    block = hashlib.sha256(f"{split} {i}".encode()).digest()
    data = b"\xff\xd8\xff"
    for k in range(10 + i * 37 % 100):
        data += hashlib.sha256(block + bytes([k])).digest()
    return data + bytes(i % 3 * 30_000)


def label(i):
    k = i * 7 % 13
    return -1 if k == 12 or i % 11 == 10 else k if k != 5 else 0  # no Dog


def write(name, split, first, count, rows=20, paths=True, null=None, **how):
    feature = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}, "note": {"dtype": "string", "_type": "Value"}}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", image), ("label", pa.int64()), ("note", pa.string())], {"huggingface": json.dumps({"info": {"features": feature}})})
    at = range(first, first + count)
    images = [None if i == null else {"bytes": content(split, i), "path": f"p{i}.{'JPEG' if i % 2 else 'jpg'}" if paths else None} for i in at]
    table = pa.Table.from_pydict({"image": images, "label": [label(i) for i in at], "note": [f"note {i}" for i in at]}, schema)
    os.makedirs(os.path.dirname(os.path.join(HERE, name)), exist_ok=True)
    pq.write_table(table, os.path.join(HERE, name), row_group_size=rows, **how)


write("hub/data/train-00000-of-00002.parquet", "train", 0, 45)  # Snappy and dictionaries
write("hub/data/train-00001-of-00002.parquet", "train", 45, 30, rows=100, use_dictionary=False)  # a page with parts
write("hub/data/test-00000-of-00001.parquet", "test", 0, 12, compression="zstd", data_page_version="2.0")
write("null.parquet", "null", 0, 8, null=3, compression="gzip", write_page_checksum=True)
write("plain.parquet", "plain", 0, 5, paths=False, compression="none", use_dictionary=False)
write("lz.parquet", "lz", 0, 4, compression="lz4")
write("brotli.parquet", "brotli", 0, 1, compression="brotli")

# A table that names files of another machine, and one of lists of files.
FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
for name, kind, value in (("path", FILE, {"bytes": None, "path": "/data/a.jpg"}), ("list", pa.list_(FILE), [{"bytes": b"a", "path": "a.jpg"}])):
    pq.write_table(pa.table({"image": pa.array([value], kind)}), os.path.join(HERE, name + ".parquet"))

# Columns of all kinds, in two ways; TestMetadata compares both with columns.jsonl.
ROWS = [{
    "image": {"bytes": b"\xff\xd8\xff" + bytes([i]), "path": f"p{i}.jpg"},
    "label": i * 7 % 12 if i % 11 else -1,
    "caption": None if i % 9 == 4 else f"caption {i // 3} äöü \"q\"\n",
    "score": None if i % 7 == 0 else float("nan") if i % 7 == 1 else i / 7,
    "single": i * 0.5,
    "whole": None if i % 5 == 0 else bool(i % 2),
    "unsigned": 2**63 + i,
    "small": -i if i % 4 else None,
    "objects": {"bbox": [[float(j), j + 0.5] for j in range(i % 4)], "category": list(range(i % 4))} if i % 6 else None,
    "tags": None if i % 8 == 0 else [None if j == 1 else f"t{j}" for j in range(i % 5)],
    "crops": [{"bytes": b"crop", "path": f"{j}.png"} for j in range(i % 3)],
    "parts": [{"x": j, "names": ["a"] * j} for j in range(i % 3)],
    "fixed": bytes([i] * 4),
} for i in range(23)]
SCHEMA = pa.schema([
    ("image", FILE), ("label", pa.int64()), ("caption", pa.string()), ("score", pa.float64()), ("single", pa.float32()), ("whole", pa.bool_()),
    ("unsigned", pa.uint64()), ("small", pa.int32()), ("objects", pa.struct([("bbox", pa.list_(pa.list_(pa.float32()))), ("category", pa.list_(pa.int64()))])),
    ("tags", pa.list_(pa.string())), ("crops", pa.list_(FILE)), ("parts", pa.list_(pa.struct([("x", pa.int64()), ("names", pa.list_(pa.string()))]))),
    ("fixed", pa.binary(4))])
ENCODINGS = {
    "image.bytes": "DELTA_LENGTH_BYTE_ARRAY", "image.path": "DELTA_BYTE_ARRAY", "caption": "DELTA_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED",
    "small": "DELTA_BINARY_PACKED", "unsigned": "DELTA_BINARY_PACKED", "score": "BYTE_STREAM_SPLIT", "single": "BYTE_STREAM_SPLIT", "whole": "RLE",
    "fixed": "BYTE_STREAM_SPLIT", "tags.list.element": "DELTA_LENGTH_BYTE_ARRAY"}


def plain(value):
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "bytes"}
    return [plain(v) for v in value] if isinstance(value, list) else value


os.makedirs(os.path.join(HERE, "columns"), exist_ok=True)
table = pa.Table.from_pylist(ROWS, SCHEMA)
pq.write_table(table, os.path.join(HERE, "columns", "old.parquet"), row_group_size=10, data_page_size=64)
pq.write_table(table, os.path.join(HERE, "columns", "new.parquet"), row_group_size=10, data_page_size=64, data_page_version="2.0", use_dictionary=False,
               compression="lz4", column_encoding=ENCODINGS)
with open(os.path.join(HERE, "columns.jsonl"), "w", encoding="utf-8") as f:
    for row in ROWS:
        f.write(json.dumps(plain({k: v for k, v in row.items() if k != "image"}), ensure_ascii=False) + "\n")
