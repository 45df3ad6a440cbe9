#!/usr/bin/env python3
"""Compiles l3.cu to PTX: compile.py LIBNVRTC VERSION DIRECTORY.

Its parts are in the .cuh files beside it. The first lines of the outputs say what they
were made of and with; abi_test.go checks them. scripts/ptx runs this.
"""
import ctypes
import gzip
import hashlib
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
library, version, directory = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
# The oldest GPUs of interest, and the first that compute with two numbers of 16 bits. The
# version of NVRTC says which drivers can read the outputs: those for CUDA 12.2 and later.
capabilities = [75, 90]

for builtins in library.parent.glob("libnvrtc-builtins.so*"):
    ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
rtc = ctypes.CDLL(str(library))


def strings(items):
    return (ctypes.c_char_p * len(items))(*items)


def text(size, get):
    """What a pair of functions returns, the size and the bytes."""
    n = ctypes.c_size_t()
    size(program, ctypes.byref(n))
    buffer = ctypes.create_string_buffer(n.value)
    get(program, buffer)
    return buffer.value


parts = sorted(here.glob("*.cuh"))
# A name, a length and the bytes of each, so that nothing can move from one to another.
digest = hashlib.sha256()
for path in [here / "l3.cu"] + parts:
    b = path.read_bytes()
    digest.update(f"{path.name} {len(b)}\n".encode() + b)

headers, names = strings([p.read_bytes() for p in parts]), strings([p.name.encode() for p in parts])
for capability in capabilities:
    options = [f"--gpu-architecture=compute_{capability}", "--std=c++17"]
    program = ctypes.c_void_p()
    if rtc.nvrtcCreateProgram(ctypes.byref(program), (here / "l3.cu").read_bytes(), b"l3.cu", len(parts), headers, names):
        sys.exit("nvrtcCreateProgram failed")
    failed = rtc.nvrtcCompileProgram(program, len(options), strings([o.encode() for o in options]))
    sys.stderr.write(text(rtc.nvrtcGetProgramLogSize, rtc.nvrtcGetProgramLog).decode())
    if failed:
        sys.exit(f"l3.cu: NVRTC error {failed}")
    body = text(rtc.nvrtcGetPTXSize, rtc.nvrtcGetPTX)
    if f"V{version}\n".encode() not in body:
        sys.exit(f"{library} is not NVRTC {version}")
    head = [
        "Made by scripts/ptx, do not edit.",
        f"sources: sha256 {digest.hexdigest()}",
        f"body: sha256 {hashlib.sha256(body).hexdigest()}",
        f"compiler: NVRTC {version}",
        f"options: {' '.join(options)}",
    ]
    whole = "".join(f"// {line}\n" for line in head).encode() + body
    output = directory / f"l3.{capability}.ptx.gz"
    # Libraries compress to different bytes: those that are there stay if they say the same.
    if not output.exists() or gzip.decompress(output.read_bytes()) != whole:
        output.write_bytes(gzip.compress(whole, 9, mtime=0))
