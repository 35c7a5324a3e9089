"""ops, passes, dialect: print the references as text for a terminal, as JSON or as Markdown pages."""

import click

from tiduc import documents
from tiduc.cli.files import JSON, OUTPUT, write, write_json
from tiduc.cli.rules import RULES
from tiduc.opt import PASSES, PIPELINES, Pass, Pipeline
from tiduc.passes.rules.registry import OpSet

_ALL: list[Pass | Pipeline] = [*PASSES.values(), *PIPELINES.values()]

MARKDOWN = click.option("--markdown", is_flag=True, help="Print Markdown, as in the documentation.")


@click.command("ops")
@MARKDOWN
@JSON
@RULES
@OUTPUT
def _ops(markdown: bool, as_data: bool, opset: OpSet, output: str) -> None:
    """List the ops with a derivative rule, the ops whose derivative is zero, and the ops that are refused.

    For ops with a rule, also list which checks the tests make, and the results for the target cpu.
    """
    if as_data:
        rows = documents.op_rows(opset)
        write_json([dict(zip(documents.OPS_HEADER, row, strict=True)) for row in rows], output)
        return
    plain = documents.plain_table(documents.OPS_HEADER, documents.op_rows(opset))
    write(documents.ops_markdown(opset) if markdown else plain, output)


@click.command("passes")
@MARKDOWN
@JSON
@OUTPUT
def _passes(markdown: bool, as_data: bool, output: str) -> None:
    """List the passes that 'tiduc opt --pass-pipeline' knows in addition to MLIR's and StableHLO's passes."""
    if as_data:
        write_json([_described(each) for each in _ALL], output)
        return
    lines = []
    for each in _ALL:
        lines.append(f"{click.style(each.name, bold=True)}\n    {each.description}\n")
        options = each.options_among(PASSES)
        lines += [f"      {option.name}=<{option.kind}>  {option.description}\n" for option in options]
    plain = "".join(lines)
    write(documents.passes_markdown() if markdown else plain, output)


def _described(pass_: Pass | Pipeline) -> dict[str, object]:
    options = [
        {"name": o.name, "kind": o.kind, "description": o.description} for o in pass_.options_among(PASSES)
    ]
    return {"name": pass_.name, "description": pass_.description, "options": options}


@click.command("dialect")
@click.option("--irdl", is_flag=True, help="Print the dialect as IRDL instead.")
@OUTPUT
def _dialect(irdl: bool, output: str) -> None:
    """Write the reference of the tidu dialect, in Markdown.

    With the IRDL file, other MLIR tools can read files that contain tidu ops: iree-opt --irdl-file=tidu.irdl.mlir.
    """
    write(documents.irdl() if irdl else documents.dialect_markdown(), output)


COMMANDS = {"ops": _ops, "passes": _passes, "dialect": _dialect}
