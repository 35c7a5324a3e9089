"""`FunctionInputs`: adds, removes and freezes inputs of a model's MLIR function."""

from collections.abc import Collection, Sequence

from torch_mlir import ir

from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import parse
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.ops.verify import FROZEN, NAME
from tiduc.models.model import Model


class FunctionInputs:
    """The inputs of a model's function, in a copy of the model's module.

    After all changes, `finish` updates the type of the function and returns the module.
    """

    def __init__(self, model: Model) -> None:
        self.module: ir.Module = parse(bytecode(model.module))
        self._function = next(
            op for op in functions_in(self.module) if op.attributes["sym_name"].value == model.name
        )
        self.block = self._function.regions[0].blocks[0]
        self._place = {port.name: i for i, port in enumerate(model.inputs)}
        empty = [ir.DictAttr.get({})] * len(self.block.arguments)
        given = self._function.attributes
        self._attributes = list(given["arg_attrs"]) if "arg_attrs" in given else empty
        self._removed = set[int]()

    def __getitem__(self, name: str) -> IrValue:
        """The block argument of the input with this name."""
        argument: IrValue = self.block.arguments[self._place[name]]
        return argument

    def add(self, name: str, sizes: Sequence[int], element: ir.Type, frozen: str = "") -> IrValue:
        """Adds an input after the others, and returns its block argument.

        If `frozen` is not empty, the input is frozen: training steps do not update it. The text is the reason.
        """
        texts = {NAME: name, FROZEN: frozen}
        self._attributes.append(ir.DictAttr.get({k: ir.StringAttr.get(x) for k, x in texts.items() if x}))
        type_ = ir.RankedTensorType.get(sizes, element)
        argument: IrValue = self.block.add_argument(type_, ir.Location.unknown())
        return argument

    def remove(self, name: str) -> None:
        """Registers an input of the model to be removed by `finish`. When `finish` is called, no op may read it."""
        self._removed.add(self._place[name])

    def freeze(self, names: Collection[str], reason: str) -> None:
        """Freezes inputs of the model for a reason. Inputs that are already frozen keep their reason."""
        for name in names:
            i = self._place[name]
            own = {key: self._attributes[i][key] for key in [x.name for x in self._attributes[i]]}
            if FROZEN not in own:
                self._attributes[i] = ir.DictAttr.get({**own, FROZEN: ir.StringAttr.get(reason)})

    def finish(self) -> ir.Module:
        """Removes the registered inputs, updates the function's type and attributes, and returns the module."""
        for i in sorted(self._removed, reverse=True):
            self.block.erase_argument(i)
            del self._attributes[i]
        self._function.attributes["arg_attrs"] = ir.ArrayAttr.get(self._attributes)
        results = ir.FunctionType(ir.TypeAttr(self._function.attributes["function_type"]).value).results
        type_ = ir.FunctionType.get([x.type for x in self.block.arguments], results)
        self._function.attributes["function_type"] = ir.TypeAttr.get(type_)
        return self.module
