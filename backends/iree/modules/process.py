"""process: runs IREE's compiler in a separate process, and edits the module between phases with IREE's bindings.

    stdin     one line of JSON, a `Job`, then the program: text, or MLIR bytecode
    argv      the flags of iree-compile
    stdout    the program at the end of the job, or the compiled module
    stderr    diagnostics, and lines for tiduc (`job.py`)

A crash of the compiler or of the bindings ends only this process. `steps.py` starts the process if there are edits to
run. Neither this folder nor the bindings import NumPy, which would take 0.2 s.
"""

import ctypes
import json
import os
import sys

from iree.compiler import ir
from iree.compiler.api import ctypes_dl as api

from tiduc.backends.iree.modules.edits import Recorded, RefusedEdit, edited
from tiduc.backends.iree.modules.job import MODULE, RECORD_EACH_RUN, RECORDS, REFUSED, Job, Span, say
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays

_DUMP, _C_CODE = "--dump-compilation-phases-to=", "--output-format=vm-c"
"""Flags of the tool iree-compile that IREE's library does not have. `_run` handles them."""

_INVOCATION = {
    "SetCompileFromPhase": ctypes.c_char_p,
    "SetCompileToPhase": ctypes.c_char_p,
    "SetVerifyIR": ctypes.c_bool,
    "SetDumpCompilationPhasesTo": ctypes.c_char_p,
}
"""Functions of IREE's C library that its Python package does not declare, with the type of their second argument.

The names lack the prefix `ireeCompilerInvocation`.
"""


def main() -> None:
    """Runs the job on standard input, and ends the process."""
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    try:
        code = _run(job, sys.stdin.buffer.read(), sys.argv[1:])
    except RefusedEdit as error:
        say(REFUSED, str(error))
        code = 1
    except Recorded:
        say(RECORDS)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # does not release the compiler's session, because the release takes time


def _run(job: Job, program: bytes, flags: list[str]) -> int:
    """Runs a job on a program, and writes the result. Returns 0, or 1 if IREE rejects the program."""
    folders = [flag.removeprefix(_DUMP) for flag in flags if flag.startswith(_DUMP)]
    known = (flag for flag in flags if not flag.startswith((_DUMP, _C_CODE)))
    api._initializeGlobalCL("iree-compile", *known)
    # Without search modules, IREE's package does not import its classes for ops, which would take 0.2 s.
    ir._globals.dialect_search_modules = []  # type: ignore[attr-defined]  # IREE's module imports the name
    session = api.Session()
    session.context.enable_multithreading(job.threads)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    for folder in folders:
        _set(invocation, "SetDumpCompilationPhasesTo", folder.encode())
    if not invocation.parse_source(api.Source.wrap_buffer(session, program, buffer_name="<stdin>")):
        return 1
    module = invocation.export_module()
    invocation.import_module(module)
    begin = job.begin
    for span in (Span(*each) for each in job.spans):
        if not _advanced(invocation, begin, span):
            return 1
        if not span.verified and not module.verify():
            return 1
        done = (copies_bound_arrays.__name__,) * (RECORD_EACH_RUN[0] in flags)
        whole = edited(module, [name for name in span.edits if name not in done], job.workgroups)
        if whole is not module:
            module = whole
            invocation.import_module(module)
        begin = span.end
    _write(invocation, (_C_CODE if _C_CODE in flags else MODULE) if begin == MODULE else "")
    return 0


def _advanced(invocation: api.Invocation, begin: str, span: Span) -> bool:
    """Runs the pipeline of a span or, if it has none, the phases after `begin`. Returns whether IREE succeeds."""
    _set(invocation, "SetVerifyIR", span.verified)
    if span.pipeline:
        return bool(invocation.execute_text_pass_pipeline(span.pipeline))
    if begin:
        _set(invocation, "SetCompileFromPhase", begin.encode())
    _set(invocation, "SetCompileToPhase", b"end" if span.end == MODULE else span.end.encode())
    return bool(invocation.execute())


def _set(invocation: api.Invocation, name: str, value: bytes | bool) -> None:
    function = getattr(api._dylib, f"ireeCompilerInvocation{name}")
    function.argtypes, function.restype = [ctypes.c_void_p, _INVOCATION[name]], None
    function(invocation._inv_p, value)


def _write(invocation: api.Invocation, form: str) -> None:
    """Writes the compiled module to standard output: as bytecode if `form` is `MODULE`, as C code if it is `_C_CODE`.

    For other forms, writes the program as MLIR bytecode instead.
    """
    output = api.Output.open_membuffer()
    if form == MODULE:
        invocation.output_vm_bytecode(output)
    elif form == _C_CODE:
        write = api._dylib.ireeCompilerInvocationOutputVMCSource
        write.argtypes, write.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
        api._handle_error(write(invocation._inv_p, output._output_p))
    else:
        invocation.output_ir_bytecode(output)
    sys.stdout.buffer.write(output.map_memory())
