"""Words that training never saw, which a model translates by guessing from their spelling."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from corpora import vocabulary
from training.json_files import read_json
from training.run_folder import RunFolder


def warner(folder: RunFolder, say: Callable[[str], Any]) -> Callable[[Sequence[str]], None]:
  """Return a function that names the words of lines that training never saw, and suggests sentences where the run has some.

  What an imported model was trained on is not known: nothing is said of its words.
  """
  @functools.cache  # read for the first lines alone: whoever types the others waits for them
  def known() -> vocabulary.KnownWords:
    return vocabulary.load_words(folder.words)

  def warn(lines: Sequence[str]) -> None:
    if folder.has(folder.imported):
      return
    unseen = list(dict.fromkeys(word for line in lines for word in vocabulary.unseen_words(line, known())))
    if unseen:
      more = f' and {len(unseen) - 12:,} more' if len(unseen) > 12 else ''
      say(f'never seen in training: {", ".join(unseen[:12])}{more}')
      suggestions = read_json(folder.suggestions)
      if suggestions:
        say('sentences to try instead:\n  ' + '\n  '.join(suggestions[:3]))

  return warn
