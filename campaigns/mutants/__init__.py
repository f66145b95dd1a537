"""Ways to break fadecount, and a campaign that shows that the tests notice each of them: ``make
mutants``."""
