"""Many pairs of inputs that differ by one protected unit, through every intake."""
