"""options: the values of options that code outside the function of a command reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import click


@dataclass
class ImportOptions:
    """The options that say how to import a model. Each field has the name of the option's parameter."""

    sizes: Sequence[str] = ()
    constants: Sequence[str] = ()
    straight_through: bool = False
    trust: bool = False
    lift_constants: bool = False
    relu: bool = False
    equal_within: float | None = None
    cached: bool = True


@dataclass
class SharedOptions:
    """The options of one command line. The contexts of `tiduc` and of its command share one record.

    `loaded` is called with the value of --memory-limit, after the libraries of the command are loaded. With
    `json_errors`, errors are printed as JSON. `pass_flags` is the pipeline of the flags that name passes. `arguments`
    are the arguments of the command line.
    """

    loaded: Callable[[int | None], None] | None = None
    quiet: bool = False
    json_errors: bool = False
    pass_flags: str = ""
    arguments: Sequence[str] = ()
    imports: ImportOptions = field(default_factory=ImportOptions)


def shared_options() -> SharedOptions:
    """Returns the options of the running command line, or the default options if no command runs."""
    context = click.get_current_context(silent=True)
    return SharedOptions() if context is None else context.find_root().ensure_object(SharedOptions)


def keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Callback of an option: stores the value in the field of `SharedOptions` that has the parameter's name."""
    _store(shared_options(), parameter, value)


def keep_import(
    context: click.Context, parameter: click.Parameter, value: bool | Sequence[str] | None
) -> None:
    """Callback of an option: stores the value in the field of `ImportOptions` that has the parameter's name."""
    _store(shared_options().imports, parameter, value)


def _store(options: SharedOptions | ImportOptions, parameter: click.Parameter, value: object) -> None:
    assert parameter.name in options.__dataclass_fields__, parameter.name
    setattr(options, parameter.name, value)
