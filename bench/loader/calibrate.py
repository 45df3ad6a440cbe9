"""Decode pictures with Pillow as torchvision's ImageFolder does, and say how much
CPU time it took: a line of JSON with names in, a line of JSON with seconds out."""
import json
import sys
import time

from PIL import Image

Image.init()
for line in sys.stdin:
    answer = {}
    began = time.process_time()
    try:
        for name in json.loads(line):
            with open(name, "rb") as f:
                Image.open(f).convert("RGB")
    except Exception as error:
        answer["error"] = str(error) or type(error).__name__
    print(json.dumps({"seconds": time.process_time() - began, **answer}), flush=True)
