"""What touches a run's disk and its user: command line, run folder, checkpoints, translation of lines, scores."""
