"""Where text comes from: named splits of sentence pairs, of documents or of labelled examples.

    loading            the corpus that a configuration names; start here
    config             the options of a corpus, and the registry of kinds, `data.kind`
    splits             the records: Pair, Split, Corpus
    phrasebook/        the embedded corpus: a grammar, so that the first run needs no download
    text_files         two text files per split; split_files says which files a split's name stands for
    column_files       one file with tab-separated columns
    json_lines         one file of JSON lines
    pairs_file         one file with a pair on each line, split here; indexed_lines reads its lines in any order
    tfds_sets          TFDS translation sets, WMT among them
    running_text       running text for language models; documents says how it is cut
    labelled           the records of labelled text, for fine-tuning a language model, and its tasks
    labelled_files     labelled text from files
    labelled_baselines what accuracy simple rules reach on a labelled set, without understanding it
    heldout            which items of one file are held out, so that nothing held out is trained on
    digests            which of many texts are equal, by their hashes
    cleaning           which of the training pairs are dropped, and what is mixed in
    conllu             sentences with their syntax
    vocabulary         SentencePiece
    subword_sampling   a new segmentation of the training text in each epoch

A new kind of corpus is a function from its options to splits, in a module of its own, which registers it in
`config.KINDS` with the options that it reads and which `loading` imports. Its options get a line in
`configs/default.py` and a field in `config.CorpusConfig`. This package depends on neither models nor runs.
"""
