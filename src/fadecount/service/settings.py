"""How a service runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from fadecount.service.clock import Clock
from fadecount.service.limits import Limits
from fadecount.service.place import StatePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chooses."""

    place: StatePlace
    hosts: frozenset[str] = frozenset()
    public: bool = False
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
    accept_extra_loss: bool = False
