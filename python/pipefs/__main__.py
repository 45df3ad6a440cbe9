"""The command pipefs, and python -m pipefs."""

from __future__ import annotations

import os
import sys

from ._program import Error, program


def main() -> None:
    """Becomes the program."""
    try:
        path = program()
        os.execv(path, ["pipefs", *sys.argv[1:]])
    except (Error, OSError) as e:
        sys.exit(f"pipefs: {e}")


if __name__ == "__main__":
    main()
