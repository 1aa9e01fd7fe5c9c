"""The phrasebook: the embedded English-German corpus, made by a grammar. Words and kinds of sentences may be added.

    lexicon         words with all their forms
    grammar         noun phrases, verbs and clauses of both languages, in step
    names           names, listed and made up
    sense           what goes with what: whose a thing may be, what is done to it
    draws           what sentences are made of: somebody, something, a deed, a state, a time
    deeds, places, numbers, clauses, pronouns   the families of sentences; kinds has the table of all
    splits          which combinations and names are held out
    facts, labelled_tasks   labelled examples for fine-tuning, out of the same grammar
    corpus          the phrasebook as kinds of corpora
    builder         the TFDS builder and the corpus
    scores          the scores that it alone allows, and rules that do not understand
"""
