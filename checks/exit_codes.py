"""The exit codes of scripts. Errors have theirs as the attribute `exit_code`; docs/reliability.md shows this table."""

DONE, UNEXPECTED, CONFIG, DATA, NON_FINITE, CHECKPOINT, STALLED, PEER_LOST, OUT_OF_MEMORY, FOLDER_BUSY = range(10)
INTERRUPTED, ABORTED, PIPE_CLOSED, PREEMPTED = 130, 134, 141, 143

MEANINGS = {
    DONE: 'done',
    UNEXPECTED: 'an unexpected error; its traceback is printed',
    CONFIG: 'a mistake in the configuration or the flags; all of them are reported together; or a package that is not '
            'installed',
    DATA: 'text or a vocabulary that cannot be used',
    NON_FINITE: 'too many updates in a row were not finite; a dump is in nonfinite/',
    CHECKPOINT: 'a checkpoint that is missing, damaged or of another configuration, or a file of the run or the output that '
                'is missing or cannot be read or written, as on a full disk',
    STALLED: 'nothing happened for train.stall_seconds; the stack of every thread is printed',
    PEER_LOST: 'another process of the run died',
    OUT_OF_MEMORY: 'a step does not fit into memory; options that need less are named',
    FOLDER_BUSY: 'another process works in the folder, or writes the same output',
    INTERRUPTED: 'Ctrl-C; saved, the same command resumes',
    ABORTED: 'another process of the run died, and jax ended this one before the program could',
    PIPE_CLOSED: 'the program that read the output ended before it, as in `| head`',
    PREEMPTED: 'SIGTERM, or its terminal was closed; saved, the same command resumes',
}
