"""From tokenised text to batches: which sentences form the batch at step n. `input_pipeline.py` tells the whole story.

    store      tokenised text on disk, memory-mapped
    sampled    a store for each epoch: subword regularisation
    shapes     rows and lengths of a batch; lengths that hold all sentences with little padding
    plan       what every plan can be asked, the options of batching, and the registry of plans
    buckets    batches of sentences of like lengths; or of one fixed shape
    packed     several sentences to a row
    labelled   batches of labelled examples, each with one sequence or several

A further way of batching is a class in a file of its own, entered in `plan.BATCHINGS` and imported by
`input_pipeline.py`. Knows neither tasks nor runs.
"""
