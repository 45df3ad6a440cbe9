"""Writes pictures.parquet beside it: one picture for each row, all of whose pixels are 19 * (label + 1). Usage: python3 pictures.py"""
import io
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

NAMES = ["zebra", "ant", "a/b", "10", "2", "missing", "Dog", "yak", "ox", "eel", "bee", "owl"]


def picture(label):
    b = io.BytesIO()
    Image.new("RGB", (16, 16), (19 * (label + 1),) * 3).save(b, "PNG")
    return {"bytes": b.getvalue(), "path": None}


labels = [k for i in range(39) if (k := i * 5 % 13 - 1) != 5]
feature = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}
schema = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())],
                   {"huggingface": json.dumps({"info": {"features": feature}})})
table = pa.Table.from_pydict({"image": [picture(k) for k in labels], "label": labels}, schema)
pq.write_table(table, os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures.parquet"), row_group_size=10)
