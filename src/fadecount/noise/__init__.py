"""The only room that touches entropy: exact discrete Laplace noise and its generator."""

from fadecount.noise.entropy import unpredictable
from fadecount.noise.keyed import KeyedNoise
from fadecount.noise.laplace import LARGEST_SCALE, DiscreteLaplace
from fadecount.noise.source import NoiseSource, SystemNoise

__all__ = ["LARGEST_SCALE", "DiscreteLaplace", "KeyedNoise", "NoiseSource", "SystemNoise", "unpredictable"]
