"""Long runs against the real thing: kills, mutants, exactness, load, soak, fuzz. Tests import their
short versions."""
