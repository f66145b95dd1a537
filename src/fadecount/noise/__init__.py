"""Exact discrete Laplace and rounded Gaussian noise, and its generator. No other package uses
entropy."""

from fadecount.noise.chain import Chain, Difference
from fadecount.noise.entropy import unpredictable
from fadecount.noise.gaussian import LARGEST_DEVIATION, SMALLEST_DEVIATION, RoundedGaussian
from fadecount.noise.generator import Lineage, require_lineage
from fadecount.noise.keyed import KeyedNoise
from fadecount.noise.laplace import LARGEST_SCALE, DiscreteLaplace
from fadecount.noise.source import Law, NoiseSource, SystemNoise

__all__ = [
    "LARGEST_DEVIATION",
    "LARGEST_SCALE",
    "SMALLEST_DEVIATION",
    "Chain",
    "Difference",
    "DiscreteLaplace",
    "KeyedNoise",
    "Law",
    "Lineage",
    "NoiseSource",
    "RoundedGaussian",
    "SystemNoise",
    "require_lineage",
    "unpredictable",
]
