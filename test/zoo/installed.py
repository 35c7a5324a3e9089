"""Lists all models of the zoo whose packages are installed."""

from importlib import import_module
from importlib.util import find_spec

from entries import Entry
from packages import import_torchvision

PACKAGES = {
    "vision": ("timm", "torchvision"),
    "language": ("transformers",),
    "diffusion": ("diffusers",),
    "science": (),
}
"""Maps each module of entries to the packages that it requires besides PyTorch."""

MISSING = sorted({package for needs in PACKAGES.values() for package in needs if find_spec(package) is None})


def _entries() -> list[Entry]:
    found: list[Entry] = []
    if find_spec("torchvision"):
        import_torchvision()
    for module, needs in PACKAGES.items():
        if not set(needs) & set(MISSING):
            found += import_module(module).ENTRIES
    return sorted(found, key=lambda entry: (entry.size != "small", entry.family))


ENTRIES = _entries()
