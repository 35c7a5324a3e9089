"""save and restore: states of sharded arrays, in the format of Orbax, on TensorStore.

Each process writes and reads only its own shards. A state can be restored on another number of processes or devices,
and with other shardings.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tiduc.backends.xla.arrays import ShardedArray, Sharding
from tiduc.dialect.errors import InputError, TiducError, first_line

SUFFIX = ".orbax"
"""The suffix of folders with a saved state, on the command line."""


def save(folder: str | os.PathLike[str], arrays: Mapping[str, ShardedArray]) -> None:
    """Saves JAX arrays under their names. All processes must call this function, with a folder that they share.

    A state in the folder is replaced. The folder appears under its name when it is complete. Raises `TiducError` if it
    cannot be written.
    """
    checkpoint = _orbax()
    import jax

    path = Path(folder).absolute()
    try:
        with (
            jax.enable_x64(True),
            _without_remarks_on_shardings(),
            checkpoint.StandardCheckpointer() as checkpointer,
        ):
            checkpointer.save(path, dict(arrays), force=True)
            checkpointer.wait_until_finished()
    except Exception as error:  # Orbax and TensorStore raise several types of exceptions
        raise TiducError(f"the state cannot be saved: {first_line(error)}", str(folder)) from error


def restore(folder: str | os.PathLike[str], shardings: Mapping[str, Sharding]) -> dict[str, ShardedArray]:
    """The arrays of a saved state with the names in `shardings`, split in this way; `XlaExecutable.shardings` fits.

    Names that the state lacks, and arrays of the state that `shardings` lacks, are left out. All processes must call
    this function; their number may differ from that of the processes that saved the state. Raises `InputError` if the
    folder has no state, or a damaged one.
    """
    checkpoint = _orbax()
    import jax

    path = Path(folder).absolute()
    try:
        with jax.enable_x64(True), checkpoint.PyTreeCheckpointer() as checkpointer:
            saved = checkpointer.metadata(path).item_metadata.tree
            wanted = {name: saved[name] for name in shardings if name in saved}
            arguments = {
                name: checkpoint.ArrayRestoreArgs(
                    sharding=shardings[name], global_shape=tuple(array.shape), dtype=array.dtype
                )
                for name, array in wanted.items()
            }
            item = {
                name: jax.ShapeDtypeStruct(tuple(array.shape), array.dtype) for name, array in wanted.items()
            }
            restored = checkpointer.restore(
                path,
                args=checkpoint.args.PyTreeRestore(item=item, restore_args=arguments, partial_restore=True),
            )
            return {name: restored[name] for name in wanted}
    except TiducError:
        raise
    except Exception as error:  # Orbax and TensorStore raise several types of exceptions
        raise InputError(f"not a saved state: {first_line(error)}", str(folder)) from error


def _orbax() -> ModuleType:
    try:
        import orbax.checkpoint as checkpoint
    except ImportError:
        raise TiducError("saved states need Orbax: pip install 'tiduc[distributed]'") from None
    module: ModuleType = checkpoint
    return module


@contextmanager
def _without_remarks_on_shardings() -> Iterator[None]:
    """In a block, drops Orbax's warning that it does not store the kind of shardings that XLA uses.

    Reading needs no stored shardings.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return "Sharding'> has not been implemented" not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(is_other)
    try:
        yield
    finally:
        root.removeFilter(is_other)
