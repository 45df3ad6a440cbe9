"""Writes the Parquet files beside it, as current releases of pyarrow do. Usage: python3 write.py

TestParquet makes the same bytes: those of row i of a split are content(split, i).
"""
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
write("lz4.parquet", "lz4", 0, 4, compression="lz4")
