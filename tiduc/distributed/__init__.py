"""Programs on several processes, with the engine `xla`: processes, their failures, and saved states.

launch(["python", "train.py"], processes=4)    # starts local processes; a launcher starts others
with joined(devices=2): ...                    # in train.py: connects the process to the others
save("state.orbax", arrays)                    # each process writes its own shards
restore("state.orbax", executable.shardings)   # on any number of processes
"""

from tiduc.distributed.checkpoints import restore, save
from tiduc.distributed.launchers import Rank, rank
from tiduc.distributed.local import launch
from tiduc.distributed.service import join, joined, leave

__all__ = ["Rank", "join", "joined", "launch", "leave", "rank", "restore", "save"]
