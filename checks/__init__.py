"""What every room checks its input with: refusals, errors, and the exit codes that they end a program with."""
