"""Warns if the installed version of IREE is not the version whose faults tiduc works around (`fault.py`)."""

import functools
import warnings
from importlib.metadata import PackageNotFoundError, version

from tiduc.backends.iree.fault import SEEN
from tiduc.dialect.errors import TiducWarning

PACKAGES = ("iree-base-compiler", "iree-base-runtime")


@functools.cache
def warn_of_another_version() -> None:
    """Warns once if the installed version of IREE is not the version with which tiduc was tested (`SEEN`).

    tiduc works around the faults of this version of IREE, and edits IREE's own IR. Another version may have other
    faults and other IR.
    """
    for package in PACKAGES:
        try:
            installed = version(package)
        except PackageNotFoundError:  # this build of IREE was not installed as a package
            continue
        if installed != SEEN:
            warnings.warn(
                f"{package} {installed} is installed, and tiduc was tested with {SEEN}: compiled programs may be "
                f"wrong. Install it (pip install {package}=={SEEN}), or run the tests with this version, as "
                "docs/iree_versions.md describes",
                TiducWarning,
                stacklevel=2,
            )
