"""From the command line to checked options: each script's flags, its configuration, --help, and exit codes.

flags, parsing       what a flag is; words -> checked values; mistakes: how they are told, with what was meant
configurations       the Python file that --config names, as a tree of options
train_options, …     of each script: its flags, its record, and parse(), which makes the one from the other
sections             records (frozen dataclasses) from sections of a configuration
help, programs       --help and --helpfull; from errors to exit codes
"""
