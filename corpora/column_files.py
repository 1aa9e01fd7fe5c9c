"""Sentence pairs from one file of tab-separated columns, such as Tatoeba's; plain or gzip. Further columns are ignored.

The file is split here: see pairs_file.
"""

from checks.errors import DataError
from corpora import pairs_file
from corpora.config import KINDS, SIDES, CorpusConfig, Kind
from corpora.splits import Corpus, Pair


def corpus(config: CorpusConfig) -> Corpus:
  """Load the file and split it so that nothing held out is trained on; see pairs_file.split.

  Raises:
    DataError: naming file and line, where a line has too few columns.
  """
  columns = config.tsv_source_column, config.tsv_target_column

  def pair_of(line: str, place: str) -> Pair:
    cells = line.split('\t')
    if len(cells) < max(columns):
      raise DataError(f'{place}: {len(cells)} tab-separated columns, too few for column {max(columns)}, '
                      'which --config.data.tsv_source_column or tsv_target_column names')
    return Pair(*(cells[column - 1].strip() for column in columns))

  return pairs_file.split(config.tsv, pair_of, 'one pair per line, tab-separated', config)


KINDS.add('tsv', Kind(corpus, 'pairs', 'tsv', "Tatoeba's pairs from manythings.org/anki"),
          'pairs: one file of tab-separated columns, split here',
          uses=('tsv', 'tsv_source_column', 'tsv_target_column', 'heldout', *SIDES))
