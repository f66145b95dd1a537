"""Exact discrete Laplace noise, and its generator. No other package uses entropy."""

from fadecount.noise.chain import Chain, Difference
from fadecount.noise.entropy import unpredictable
from fadecount.noise.generator import Lineage, require_lineage
from fadecount.noise.keyed import KeyedNoise
from fadecount.noise.laplace import LARGEST_SCALE, DiscreteLaplace
from fadecount.noise.source import NoiseSource, SystemNoise

__all__ = [
    "LARGEST_SCALE",
    "Chain",
    "Difference",
    "DiscreteLaplace",
    "KeyedNoise",
    "Lineage",
    "NoiseSource",
    "SystemNoise",
    "require_lineage",
    "unpredictable",
]
