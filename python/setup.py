"""What pyproject.toml cannot say: the version, and that the wheel holds a program of Linux.

scripts/wheel builds the wheel. It puts the program into pipefs/bin, and says what it is:
PIPEFS_WHEEL_VERSION, and PIPEFS_WHEEL_PLATFORM such as linux_x86_64.
"""

import os
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

if "PIPEFS_WHEEL_VERSION" not in os.environ:
    sys.exit("the wheel holds a program that Go builds: make wheel")


class Binary(Distribution):
    """What it holds goes where a platform's files go."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    """A wheel for every Python 3, and one platform."""

    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", os.environ["PIPEFS_WHEEL_PLATFORM"]


setup(distclass=Binary, version=os.environ["PIPEFS_WHEEL_VERSION"], cmdclass={"bdist_wheel": Wheel})
