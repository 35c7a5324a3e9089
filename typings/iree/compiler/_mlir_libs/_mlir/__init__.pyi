from collections.abc import Mapping
from typing import Any, Self
from numpy.typing import NDArray
from collections.abc import Callable, Sequence
import enum
from typing import TypeVar

import iree.compiler._mlir_libs._mlir.ir

from iree.compiler._mlir_libs._mlir import (
    ir as ir,
    passmanager as passmanager,
    rewrite as rewrite
)


T = TypeVar("T")

U = TypeVar("U")

class OnExplicitAction(enum.Enum):
    USE_EXPLICIT = 0

    USE_TRACEBACK = 1

class CurrentLocAction(enum.Enum):
    FALLBACK = 0

    NAMELOC_WRAP = 1

class _Globals:
    def __init__(self, /, *args, **kwargs): ...

    @property
    def dialect_search_modules(self) -> list[str]: ...

    @dialect_search_modules.setter
    def dialect_search_modules(self, arg: Sequence[str], /) -> None: ...

    def append_dialect_search_prefix(self, module_name: str) -> None: ...

    def _check_dialect_module_loaded(self, dialect_namespace: str) -> bool: ...

    def _register_dialect_impl(self, dialect_namespace: str, dialect_class: object, *, replace: bool = False) -> None: ...

    def _register_operation_impl(self, operation_name: str, operation_class: object, *, replace: bool = False) -> None: ...

    def loc_tracebacks_enabled(self) -> bool: ...

    def set_loc_tracebacks_enabled(self, arg: bool, /) -> None: ...

    def loc_tracebacks_frame_limit(self) -> int: ...

    def set_loc_tracebacks_frame_limit(self, arg: int, /) -> None: ...

    def register_traceback_file_inclusion(self, arg: str, /) -> None: ...

    def register_traceback_file_exclusion(self, arg: str, /) -> None: ...

    def traceback_action_on_explicit_loc(self) -> OnExplicitAction: ...

    def set_traceback_action_on_explicit_loc(self, arg: OnExplicitAction, /) -> None: ...

    def traceback_action_on_current_loc(self) -> CurrentLocAction: ...

    def set_traceback_action_on_current_loc(self, arg: CurrentLocAction, /) -> None: ...

globals: _Globals = ...

def register_dialect(dialect_class: type) -> type: ...

def register_operation(dialect_class: type, *, replace: bool = False) -> Callable[[type[T]], type[T]]: ...

def register_op_adaptor(op_class: type, *, replace: bool = False) -> Callable[[type[T]], type[T]]: ...

def register_type_caster(typeid: iree.compiler._mlir_libs._mlir.ir.TypeID, *, replace: bool = False) -> Callable[[Callable[[T], U]], Callable[[T], U]]: ...

def register_value_caster(typeid: iree.compiler._mlir_libs._mlir.ir.TypeID, *, replace: bool = False) -> Callable[[Callable[[T], U]], Callable[[T], U]]: ...
