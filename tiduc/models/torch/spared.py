"""Spares a worker process work of PyTorch that no import of a model needs: `spare_work`.

- PyTorch imports the package NetworkX, which takes a quarter of a second. Only the functions that partition training
  graphs for `torch.compile` call it.
- PyTorch creates Python objects for all of its composite ops whenever it needs a list of them, which is 27 times in one
  import. The objects exist after the first time.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_COMPOSITE = "CompositeImplicitAutograd"


def spare_work(torch: ModuleType) -> None:
    """Spares this process the work that the module's docstring lists. Further calls change nothing."""
    from torch._export import utils

    defer_package("networkx")
    if not isinstance(getattr(utils, _CREATE, None), _CompositeOps):
        setattr(utils, _CREATE, _CompositeOps(torch))


_CREATE = "_materialize_cpp_cia_ops"
"""PyTorch's function that creates the Python objects of composite ops."""


class _CompositeOps:
    """A function that creates Python objects for composite ops, and does so once for each registered op."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._created: set[str] = set()

    def __call__(self) -> None:
        registered = self._torch._C._dispatch_get_registrations_for_dispatch_key(_COMPOSITE)
        self._created.intersection_update(registered)  # an op can be removed, and registered again
        for op in registered:
            if op not in self._created:
                namespace, _, name = op.partition("::")
                name, _, overload = name.partition(".")
                getattr(getattr(getattr(self._torch.ops, namespace), name), overload or "default")
                self._created.add(op)


def defer_package(name: str) -> None:
    """Defers the import of a package to the first call of one of its functions or classes.

    Until then, attributes of the package are functions that import the package when they are called. The package is
    also imported when one of its submodules is. Nothing changes if the package is imported already or not installed.
    """
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None:
        return
    package = _Deferred(name)
    package.__spec__, package.__file__ = spec, spec.origin
    sys.modules[name] = package


class _Deferred(ModuleType):
    """A package whose import is deferred."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # a submodule is being imported
            return _imported(self).__path__
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} before it is imported")
        return _call_of(self, name)


def _call_of(package: _Deferred, name: str) -> Callable[..., object]:
    def call(*arguments: object, **keywords: object) -> object:
        function: Callable[..., object] = getattr(_imported(package), name)
        return function(*arguments, **keywords)

    return call


def _imported(package: _Deferred) -> ModuleType:
    if sys.modules.get(package.__name__) is package:
        del sys.modules[package.__name__]
    return import_module(package.__name__)
