"""From tokenised text to batches: which sentences form the batch at step n. Read `input_pipeline.py` first.

    store      tokenised text on disk, memory-mapped
    pieces     how a store is written, so that a kill loses little
    sampled    a store for each epoch: subword regularisation
    shapes     rows and lengths of a batch; lengths that hold all sentences with little padding
    plan       the interface of every plan, the options of batching, and the registry of plans
    buckets    batches of sentences of similar lengths; or of one fixed shape
    packed     several sentences to a row
    labelled   batches of labelled examples, each with one sequence or several

A further way of batching is a class in a file of its own, registered in `plan.BATCHINGS` and imported by
`input_pipeline.py`. This package imports neither tasks nor runs.
"""
