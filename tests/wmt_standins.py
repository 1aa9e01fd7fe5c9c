"""Small stand-ins for WMT 2014's archives, put where TFDS keeps its downloads: its real builder then runs offline."""

import io
import json
import os
import tarfile

NAME = 'wmt14_translate'
EUROPARL = 'http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz'
COMMONCRAWL = 'http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz'
NEWS = 'http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz'
DEV = 'http://data.statmt.org/wmt19/translation-task/dev.tgz'


def numbered(prefix: str, count: int) -> list[tuple[str, str]]:
  """`count` (English, German) pairs, all different, with words that the two sides share."""
  nouns = [('dog', 'Hund'), ('street', 'Straße'), ('cat', 'Katze'), ('bridge', 'Brücke'), ('house', 'Haus')]
  return [(f'{prefix} number {i} sees the {nouns[i % 5][0]}.', f'{prefix} Nummer {i} sieht: {nouns[i % 5][1]}.')
          for i in range(count)]


def make_standins(data_dir, train_pairs=None, validation_pairs=None,
                  test_pairs=None) -> dict[str, list[tuple[str, str]]]:
  """Puts the four archives of wmt14_translate/de-en below `data_dir`; returns the pairs of each split.

  Args:
    data_dir: what `config.data.tfds_dir` will be.
    train_pairs: (English, German) pairs, dealt out to Europarl, Common Crawl and News Commentary; 60 by default.
    validation_pairs: newstest2013; 7 by default.
    test_pairs: newstest2014; 5 by default. TFDS shuffles a split when it prepares it.
  """
  train = numbered('Member', 60) if train_pairs is None else list(train_pairs)
  validation = numbered('Reporter', 7) if validation_pairs is None else list(validation_pairs)
  test = numbered('Minister', 5) if test_pairs is None else list(test_pairs)
  plain = lambda pairs, side: ''.join(f'{pair[side]}\n' for pair in pairs)
  sgml = lambda pairs, side: '<doc>\n' + ''.join(
      f'<seg id="{i}">{pair[side]}</seg>\n' for i, pair in enumerate(pairs, 1)) + '</doc>\n'
  both = lambda stem, pairs: {f'{stem}.{code}': plain(pairs, side) for side, code in enumerate(('en', 'de'))}
  third = -(-len(train) // 3)
  _archive(data_dir, EUROPARL, both('training/europarl-v7.de-en', train[:third]))
  _archive(data_dir, COMMONCRAWL, both('commoncrawl.de-en', train[third:2 * third]))
  _archive(data_dir, NEWS, both('training/news-commentary-v9.de-en', train[2 * third:]))
  _archive(data_dir, DEV, both('dev/newstest2013', validation) | {
      'dev/newstest2014-deen-src.de.sgm': sgml(test, 1), 'dev/newstest2014-deen-ref.en.sgm': sgml(test, 0)})
  return {'train': train, 'validation': validation, 'test': test}


def _archive(data_dir, url: str, files: dict[str, str]) -> None:
  """One .tgz under the name that TFDS gives to a finished download of `url`, and the note it writes beside it."""
  import tensorflow_datasets.translate  # noqa: F401  (registers the checksums)
  from tensorflow_datasets.core.download import checksums, resource
  info = checksums.get_all_url_infos()[url]
  folder = os.path.join(data_dir, 'downloads', NAME)
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, resource.get_dl_fname(url, info.checksum))
  with tarfile.open(path, 'w:gz', compresslevel=1) as archive:
    for name, text in files.items():
      data = text.encode()
      member = tarfile.TarInfo(name)
      member.size = len(data)
      archive.addfile(member, io.BytesIO(data))
  with open(f'{path}.INFO', 'w') as file:
    json.dump({'urls': [url], 'dataset_names': [NAME], 'original_fname': url.rsplit('/', 1)[1],
               'url_info': {'checksum': info.checksum, 'filename': info.filename, 'size': int(info.size)}}, file)
