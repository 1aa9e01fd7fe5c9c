"""Checks of input that every package uses: registries of choices, refusals, errors, and exit codes of programs."""
