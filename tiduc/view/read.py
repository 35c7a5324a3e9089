"""read: turns a module of any stage into scenes: one for each function, graph, and region with more than one op.

Small constants, and broadcasts of splat constants, have no boxes. They are written in the boxes of the ops that read
them. If a graph reads a value of another graph, an arrow leads from the box of the value in that graph to the reader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.activity import Activity, callees, functions, named_values
from tiduc.dialect.errors import describe
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF
from tiduc.passes.batch import BATCH_OF
from tiduc.view import label
from tiduc.view.scene import Arrow, Box, Picture, Scene

REGIONS = {"stablehlo.while": ("cond", "do"), "stablehlo.if": ("true", "false")}


@stage
def read_picture(
    module: ir.Module,
    activity: Activity,
    title: str = "",
    notes: Mapping[IrValue, tuple[str, bool]] | None = None,
) -> Picture:
    """Makes a picture with the scenes of a module. Its `shown` has the scenes of public functions and graphs.

    `notes` maps some values to a note for their box, and to a boolean that states whether the note is an alarm.
    """
    reader = _Reader(module, activity, title, notes or {})
    for name, op in reader.functions.items():
        reader.function(name, op)
    for op in operations(module.body):
        if op.name == "tidu.bind":
            reader.bind(op)
    return reader.picture


class _Reader:
    def __init__(
        self,
        module: ir.Module,
        activity: Activity,
        title: str,
        notes: Mapping[IrValue, tuple[str, bool]],
    ) -> None:
        self.picture = Picture(title)
        self.notes = notes
        self.activity = activity
        self.functions = functions(module)
        self.named = {n: named_values(op) for n, op in self.functions.items() if op.name == "tidu.graph"}
        self.symbols = {x: name for names in self.named.values() for name, x in names.items()}
        self.literals: dict[Any, str] = {}
        self.aliases: dict[Any, Any] = {}  # result of `tidu.external` -> the value that it denotes
        self.defined_by: dict[
            Any, tuple[Box, int]
        ] = {}  # value -> the box that defines it, and its result number
        self.outers: dict[tuple[str, str], Box] = {}  # (scene of a region, box outside) -> box in the scene
        self.captured: dict[str, dict[Any, None]] = {}  # scene of a region -> the outer values that it reads
        self.count = 0
        for op in self.functions.values():
            for block in _blocks(op):
                self.look(block)
        for (
            name,
            op,
        ) in self.functions.items():  # all boxes before arrows, because a graph may read a later graph
            self.picture.scenes[f"@{name}"] = self.empty(name, op)

    # ---- values without boxes -----------------------------------------------------------------------------------

    def look(self, block: ir.Block) -> None:
        """Records the text of constants that have no box, and the value that each `tidu.external` denotes."""
        for op in operations(block):
            if op.name == "tidu.external":
                graph, name = op.attributes["ref"].value
                target = self.named.get(graph, {}).get(name)
                if target is not None:
                    self.aliases[op.result] = target
            elif (said := label.literal(op)) is not None:
                self.literals[op.result] = said
            elif op.name in label.LITERALS and (of := self.literals.get(op.operands[0])) is not None:
                if not of.startswith("["):
                    self.literals[op.result] = of

    def literal(self, x: IrValue) -> str | None:
        return self.literals.get(self.follow(x))

    def follow(self, x: IrValue) -> IrValue:
        seen = 0
        while x in self.aliases and seen <= len(self.aliases):
            x, seen = self.aliases[x], seen + 1
        return x

    # ---- functions and graphs -----------------------------------------------------------------------------------

    def empty(self, name: str, op: IrOp) -> Scene:
        """Makes the scene of a function or graph, with boxes for its inputs and ops, but without arrows."""
        linear = INPUT_OF in op.attributes
        plain = "batched graph" if BATCH_OF in op.attributes else "graph"
        kind = "linear graph" if linear else plain if op.name == "tidu.graph" else "function"
        scene = Scene(f"@{name}", kind, f"{kind} @{name}", place=describe(op.location))
        visibility = op.attributes.get("sym_visibility")
        if visibility is None or str(ir.StringAttr(visibility).value) == "public":
            self.picture.shown.append(scene.name)
        block = op.regions[0].blocks[0]
        if op.name == "tidu.graph":
            names = [str(ir.FlatSymbolRefAttr(key).value) for key in op.attributes["inputs"]]
        else:
            names = label.port_names(block.arguments, op.attributes.get("arg_attrs"), "arg")
        of = [f"∂ {_spelled(ref)}" for ref in op.attributes[INPUT_OF]] if linear else [""] * len(names)
        for x, input_name, said in zip(block.arguments, names, of, strict=True):
            self.input(scene, x, input_name, said)
        self.boxes(scene, block)
        return scene

    def input(self, scene: Scene, x: IrValue, name: str, detail: str = "") -> None:
        self.add(scene, [x], kind="input", name=name, detail=detail, place=describe(x.location))

    def function(self, name: str, op: IrOp) -> None:
        scene, block = self.picture.scenes[f"@{name}"], op.regions[0].blocks[0]
        self.arrows(scene, block)
        *_, end = operations(block)
        if OUTPUT_OF in op.attributes:
            flags = list(op.attributes[ACTIVE_OUTPUTS])
            pairs = zip(op.attributes[OUTPUT_OF], flags, strict=True)
            names = [f"∂ {_spelled(ref)}" for ref, is_active in pairs if is_active]
        else:
            names = label.port_names(end.operands, op.attributes.get("res_attrs"), "result")
        self.outputs(scene, end, names)

    def outputs(self, scene: Scene, end: IrOp, names: list[str]) -> None:
        for i, x in enumerate(end.operands):
            said = self.literal(x) or ""
            activity = self.activity.of(self.follow(x))
            box = self.box(
                scene,
                kind="output",
                name=names[i] if i < len(names) else f"result{i}",
                types=(label.type_name(x.type),),
                detail=said,
                activity=activity,
            )
            if not said:
                self.arrow(scene, x, box, 0)

    def bind(self, op: IrOp) -> None:
        """Adds an arrow from the value of a `tidu.bind` to each input that it binds."""
        key, (graph, name) = (
            str(ir.FlatSymbolRefAttr(op.attributes["input"]).value),
            op.attributes["value"].value,
        )
        value = self.named.get(graph, {}).get(name)
        if value is None:
            return
        value = self.follow(value)
        for reader, values in self.named.items():
            x = values.get(key)
            if x not in self.defined_by:
                continue
            scene, bound = self.picture.scenes[f"@{reader}"], self.defined_by[x][0]
            if (said := self.literal(value)) is not None:
                scene.boxes[bound.id] = replace(bound, detail=f"{bound.detail} = {said}".strip())
            elif value in self.defined_by:
                box, i = self.defined_by[value]
                scene.arrows.append(Arrow(box.id, bound.id, 0, i, "bind"))

    # ---- ops ------------------------------------------------------------------------------------------------------

    def boxes(self, scene: Scene, block: ir.Block) -> None:
        for op in operations(block):
            if op.name in ("tidu.name", "func.return", "return", "stablehlo.return"):
                continue
            if op.name == "tidu.external":
                if op.result not in self.aliases:  # the graph of the value is in another file
                    self.add(scene, [op.result], kind="outer", name=_spelled(op.attributes["ref"]))
                continue
            if any(y in self.literals for y in op.results):
                continue
            self.op(scene, op)

    def op(self, scene: Scene, op: IrOp) -> None:
        called = callees(op)
        kind = "call" if called else "constant" if op.name == "stablehlo.constant" else "op"
        literals = [said or "·" for said in map(self.literal, op.operands)]
        said = f"({', '.join(literals)})" if any(x != "·" for x in literals) else ""
        details = [part for part in (said, label.attributes(op)) if part]
        opens = [f"@{name}" for name in called if name in self.functions]
        regions = self.regions(scene, op)
        opens += regions
        scopes = label.said_of_place(op.location)
        self.add(
            scene,
            list(op.results),
            kind=kind,
            name=label.title(op),
            detail=" ".join(details),
            place=describe(op.location),
            text=f"{op.name} {scopes}" if scopes else op.name,
            opens=tuple(dict.fromkeys(opens)),
            key=op,
        )
        captured = dict.fromkeys(x for name in regions for x in self.captured.get(name, ()))
        for i, x in enumerate(captured):
            self.arrow(scene, x, self.defined_by[op][0], len(op.operands) + i, "captured")

    def regions(self, scene: Scene, op: IrOp) -> list[str]:
        """Makes scenes for the regions of an op, and returns their names.

        An op whose only region has only one op besides the terminator, such as a reduction, gets no scene.
        """
        if not len(op.regions) or label.reducer(op):
            return []
        names = []
        for i, region in enumerate(op.regions):
            of = REGIONS.get(op.name, ())
            role = of[i] if i < len(of) else f"region {i}"
            inner = Scene(f"{scene.name}/{label.title(op)} {self.count}.{role}", "region", role)
            inner.title = f"{label.title(op)}: {role}"
            self.picture.scenes[inner.name] = inner
            for block in region.blocks:
                for k, x in enumerate(block.arguments):
                    self.input(inner, x, f"carry{k}" if op.name == "stablehlo.while" else f"arg{k}")
                self.boxes(inner, block)
                self.arrows(inner, block)
                *_, end = operations(block)
                self.outputs(inner, end, [])
            names.append(inner.name)
        return names

    def arrows(self, scene: Scene, block: ir.Block) -> None:
        for op in operations(block):
            if (sources := self.defined_by.get(op)) is None:
                continue
            for slot, x in enumerate(op.operands):
                if self.literal(x) is None:
                    self.arrow(scene, x, sources[0], slot)

    def arrow(self, scene: Scene, x: IrValue, box: Box, slot: int, kind: str = "value") -> None:
        """Adds an arrow to `box` from the box that defines x. It may be in an enclosing scene or in another graph."""
        target = self.follow(x)
        if target not in self.defined_by:  # the reference is cyclic; other commands raise an error
            self.add(scene, [target], kind="outer", name="a reference to itself")
        source, result = self.defined_by[target]
        if source.id not in scene.boxes:
            if scene.kind == "region":
                source = self.outer(scene, source)
                self.captured.setdefault(scene.name, {})[target] = None
            else:
                kind = "external"
        scene.arrows.append(Arrow(source.id, box.id, slot, result, kind))

    def outer(self, scene: Scene, source: Box) -> Box:
        """Returns the box in the scene of a region for a value from outside the region."""
        key = scene.name, source.id
        if key not in self.outers:
            said = {"types": source.types, "activity": source.activity, "place": source.place}
            self.outers[key] = self.box(scene, kind="outer", name=source.symbol or source.name, **said)
        return self.outers[key]

    # ---- boxes ----------------------------------------------------------------------------------------------------

    def add(self, scene: Scene, values: list[IrValue], key: IrOp | None = None, **said: Any) -> None:
        """Adds a box that defines `values`, and also the box of the op `key` if it is given."""
        activity = {self.activity.of(y) for y in values}
        most = next((a for a in ("linear", "active") if a in activity), "inactive")
        types = tuple(label.type_name(y.type) for y in values)
        symbol = next((self.symbols[y] for y in values if y in self.symbols), "")
        noted = [self.notes[y] for y in values if y in self.notes]
        if noted:
            said["note"] = ", ".join(note for note, _ in noted)
            said["alarm"] = any(alarm for _, alarm in noted)
        box = self.box(scene, types=types, activity=most, symbol=symbol, **said)
        for i, y in enumerate(values):
            self.defined_by[y] = box, i
        if key is not None:
            self.defined_by[key] = box, 0

    def box(self, scene: Scene, **said: Any) -> Box:
        box = Box(f"n{self.count}", **said)
        self.count += 1
        scene.boxes[box.id] = box
        return box


def _blocks(op: IrOp) -> Iterator[Any]:
    """Yields all blocks in an op. Each block precedes the blocks that it contains."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in operations(block):
                yield from _blocks(inner)


def _spelled(ref: ir.SymbolRefAttr) -> str:
    """Returns the text of a reference, without the quotes that MLIR prints around unusual names."""
    return "::".join(f"@{name}" for name in ref.value)
