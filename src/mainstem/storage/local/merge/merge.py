"""A merge job, from its encoded form to its encoded outcome.

Every byte is checked before it is copied, and every head before a file is adopted. An outcome either counts whole or leaves
nothing behind.
"""

from __future__ import annotations

import errno

from mainstem.model.errors import CorruptData, DiskError
from mainstem.storage.local.merge.job import Damage, MergeOutcome, StateJob, decode_job, encode_outcome
from mainstem.storage.local.merge.run_merge import merge_runs
from mainstem.storage.local.merge.state_fold import join_state
from mainstem.storage.local.merge.wal_merge import merge_wal
from mainstem.storage.runtime.disk import Disk


def run_merge_job(disk: Disk, job: bytes) -> bytes:
    """Do an encoded job, answer the encoded outcome. Damage and disk errors are outcomes; anything else raised is a bug."""
    decoded = decode_job(job)
    try:
        if isinstance(decoded, StateJob):
            outcome = join_state(disk, decoded)
        elif decoded.kind == "wal":
            outcome = merge_wal(disk, decoded)
        else:
            outcome = merge_runs(disk, decoded)
    except CorruptData as error:
        outcome = MergeOutcome(damage=Damage(error.file, error.position, error.what, list(error.logs)))
    except DiskError as error:
        outcome = MergeOutcome(error=str(error))
    except OSError as error:
        outcome = MergeOutcome(error=str(error), no_space=error.errno in (errno.ENOSPC, errno.EDQUOT))
    return encode_outcome(outcome)
