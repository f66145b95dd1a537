"""Large samples about block counters."""
