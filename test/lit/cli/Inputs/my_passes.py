"""Passes that a user defines, for `tiduc opt --load-passes`."""

from tiduc.opt import Option, Pass


def rename(module, to):
    """Renames the only function of a module."""
    (function,) = module.body.operations
    function.attributes["sym_name"] = type(function.attributes["sym_name"]).get(to)


def fail(module):
    """Raises an exception."""
    raise ValueError("no luck")


PASSES = [
    Pass("my-rename", "Renames the function.", rename, (Option("to", "string", "the new name"),)),
    Pass("my-failure", "Fails.", fail),
]
