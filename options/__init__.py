"""From the command line to checked options: each script's flags, its configuration, --help, and exit codes.

flags, parsing       what a flag is; from the words of a command line to checked values
mistakes             messages about mistakes, with the option that was probably meant
configurations       the Python file that --config names, as a tree of options
train_options, …     for each script: its flags, its record, and parse(), which makes the record from the flags
sections             records (frozen dataclasses) from sections of a configuration
help, programs       --help and --helpfull; from errors to exit codes
"""
