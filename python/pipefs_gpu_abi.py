"""What the kernels of pipefs_gpu want. Written by go generate from l3gpu/kernel/abi.go, which says what it means."""

import struct

ALIGNMENT = 16  # of files and tables
PADDING = 16  # zeros behind each file
WARPS = 2  # of a block; each decodes a patch
THREADS = 64  # of a block
BAND = 32  # rows
NARROW = 256  # wider patches of version 2 need scratch rows
MAX_FILE = 4294901760  # bytes
MAX_PATCH = 268435456  # bytes
MAX_PATCH_WIDTH = 65536  # of version 2
PATCH_LEN = 32  # of a patch's record
GOOD = 4294967295  # the status of a picture that was decoded
PICTURE = struct.Struct("<QQqqqIIIIBBBBIffffffff")  # a picture's record
OUTPUTS = {"float32": 1, "float16": 2}  # all else is as stored
ENTRIES = ("l3v1_1", "l3v1_3", "l3v2_1", "l3v2_2", "l3v2_3", "l3v2_4", "l3v2_1w", "l3v2_2w", "l3v2_3w", "l3v2_4w")
REFUSALS = {  # the lower four bits of a status: the kind of error, and what it says
    1: ("Damaged", "its head is damaged"),
    2: ("Truncated", "it is shorter than its parts"),
    3: ("Damaged", "it is longer than its parts"),
    4: ("Damaged", "a block is damaged"),
    5: ("Damaged", "a stream is damaged"),
    6: ("Damaged", "its rows are damaged"),
    7: ("PictureError", "it has no scratch row"),
}
