#!/usr/bin/env python3
"""Compiles the .cu files of this folder with NVRTC into NAME.ARCH.ptx.

    LD_LIBRARY_PATH=DIR_OF_LIBNVRTC ./compile.py [NAME.cu ...]

libnvrtc.so.12 comes with the CUDA toolkit, or with the Python package nvidia-cuda-nvrtc-cu12.
"""
import ctypes
import pathlib
import sys

ARCHS = ("75", "90")
here = pathlib.Path(__file__).parent
rtc = ctypes.CDLL("libnvrtc.so.12")


def compile_file(path, arch):
    prog = ctypes.c_void_p()
    opts = [b"--gpu-architecture=compute_" + arch.encode(), b"-lineinfo"]
    src = path.read_bytes()
    if rtc.nvrtcCreateProgram(ctypes.byref(prog), src, path.name.encode(), 0, None, None):
        sys.exit("nvrtcCreateProgram failed")
    rc = rtc.nvrtcCompileProgram(prog, len(opts), (ctypes.c_char_p * len(opts))(*opts))
    n = ctypes.c_size_t()
    rtc.nvrtcGetProgramLogSize(prog, ctypes.byref(n))
    log = ctypes.create_string_buffer(n.value)
    rtc.nvrtcGetProgramLog(prog, log)
    sys.stderr.write(log.value.decode())
    if rc:
        sys.exit(f"{path.name}: NVRTC error {rc}")
    rtc.nvrtcGetPTXSize(prog, ctypes.byref(n))
    ptx = ctypes.create_string_buffer(n.value)
    rtc.nvrtcGetPTX(prog, ptx)
    text = ptx.value.replace(str(pathlib.Path.cwd()).encode() + b"/", b"")
    # of no use here: constants of the header nv/target
    text = b"".join(line for line in text.splitlines(True) if b"nv6target" not in line)
    path.with_suffix(f".{arch}.ptx").write_bytes(text)


for cu in [pathlib.Path(a) for a in sys.argv[1:]] or sorted(here.glob("*.cu")):
    for arch in ARCHS:
        compile_file(cu, arch)
