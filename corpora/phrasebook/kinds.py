"""The phrasebook's kinds of sentences, with their weights.

To add a kind, write a function `_name(draft) -> list[Example]` that draws one sentence, in the module of its subject,
and give it a weight in that module's KINDS. Every German sentence must be the one right translation: leave out what
depends on something the English does not say. A function's name seeds its draws, so renaming one gives other sentences.
"""

from corpora.phrasebook import clauses, deeds, numbers, places, voices
from corpora.phrasebook.draws import Kinds
from corpora.phrasebook.pronouns import because_of_it, bought_and_lost, draw_pronoun_pair, draw_unseen_pair, its

# Kind -> weight: its share of the sentences (a pronoun pair makes two).
KINDS: Kinds = {
    draw_pronoun_pair: 55,
    bought_and_lost: 5, because_of_it: 5, its: 3,
    **deeds.KINDS, **places.KINDS, **numbers.KINDS, **clauses.KINDS,
    **voices.KINDS,
}
# What a split has beside these, or more of: training the rare endings of adjectives; the test pairs with unseen keys,
# adjectives with new nouns, and cities.
MORE: dict[str, Kinds] = {
    'train': {deeds.described: 9},
    'test': {draw_unseen_pair: 40, deeds.being: 10, places.travel: 12},
}
