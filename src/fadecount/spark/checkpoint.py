"""The identity of a stream beside its checkpoint, so that the driver can refuse a wrong one before the query starts.

It lies in the checkpoint's own directory, as ``fadecount.json``, and is written before the first micro-batch. As long as no
micro-batch was committed there, nothing has been released, and every new start takes a new epoch. So noise is never
used again by a checkpoint that was lost, emptied or confused with another. The note names its own place too: a copy of a
checkpoint that went on beside the first would put the same noise on other counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from pyspark.sql import SparkSession

from fadecount.errors import CheckpointError
from fadecount.noise.entropy import unpredictable
from fadecount.spark.directory import Directory
from fadecount.spark.identity import Identity

_NAME = "fadecount.json"


def settle_epoch(spark: SparkSession, checkpoint: str, identity: Identity) -> tuple[Identity, bool]:
    """The identity with the epoch of the checkpoint, and whether the checkpoint is new; refuses another stream's checkpoint."""
    directory = Directory(spark, checkpoint)
    if directory.last_batch("commits") < 0:
        begun = replace(identity, epoch=identity.epoch or new_epoch())
        directory.write(_NAME, json.dumps({**asdict(begun), "place": directory.place}))
        return begun, True
    if not directory.holds(_NAME):
        raise CheckpointError(f"checkpoint must hold {_NAME}, got {checkpoint!r} without one; take a new checkpoint")
    stored, place = _parted(directory.read(_NAME))
    replace(identity, epoch=identity.epoch or stored.epoch).require_same(stored)
    if place != directory.place:
        raise CheckpointError(
            f"checkpoint must be where it began, {place}, got {directory.place}; a copy would put the same noise on other "
            f"counts: go on with the first, or, if it was moved and no copy is left, write its new place into {_NAME}"
        )
    return stored, False


def new_epoch() -> str:
    return unpredictable(16).hex()


def _parted(note: str) -> tuple[Identity, str]:
    """The identity in a note, and the place."""
    try:
        fields = json.loads(note)
        place = str(fields.pop("place"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint must hold a whole {_NAME}, got a damaged one; restore it") from error
    return Identity.from_json(json.dumps(fields)), place
