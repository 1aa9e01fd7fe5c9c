"""Translation sets of TensorFlow Datasets, WMT among them, prepared and read without TensorFlow.

Any set whose features are texts named by language will do. It is prepared once, as array_record files (TFDS's
default, tfrecord, needs TensorFlow), and read lazily: of WMT's millions of pairs a few thousand are in memory at a
time. TFDS shuffles a split once, when it is prepared, so lines stand in another order than in the published files.
"""

import contextlib
import difflib
import functools
import hashlib
import io
import json
import logging
import os
import re
import sys
import types
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

from checks.errors import DataError
from corpora.config import KINDS, SIDES, SPLITS, CorpusConfig, Kind
from corpora.splits import Corpus, Pair, Split, counted

_READER = 1  # part of every fingerprint: raise it when the text that is read from the same files changes
_CHUNK = 4096  # records read at a time


def corpus(config: CorpusConfig) -> Corpus:
  """Load the set of `config.tfds_name`, in either direction, and prepare it first if it is not there yet.

  Raises:
    DataError: when the set cannot be prepared, or has no such language or split.
  """
  builder = _prepared(config)
  return Corpus(
      name=builder.info.full_name, source_language=config.source_language, target_language=config.target_language,
      train=_split(builder, config.train_split, config, drop_empty=True),
      validation=_split(builder, config.validation_split, config, drop_empty=False),
      tests=tuple(_split(builder, name, config, drop_empty=False) for name in config.test_splits),
      notes=(config.direction, f'prepared in {builder.data_dir}'))


def split(config: CorpusConfig, name: str) -> Split:
  """Load one split of the set of `config.tfds_name`, slices such as test[:10%] included. Raises DataError."""
  return _split(_prepared(config), name, config, drop_empty=False)


# ------------------------------------------------------------------------------------------------------- reading


def _split(builder, split: str, config: CorpusConfig, drop_empty: bool) -> Split:
  """Return a split by its TFDS name, slices such as train[:1%] included."""
  try:
    size = builder.info.splits[split].num_examples
  except Exception as error:  # TFDS raises KeyError, ValueError and AssertionError for what it cannot parse or find
    raise DataError(f'{builder.info.full_name} has no split {split!r} ({_first_line(error)}); it has '
                    f'{", ".join(builder.info.splits)}. A part of one can stand for a missing one: '
                    "--config.data.train_split='train[1%:]' --config.data.validation_split='train[:1%]' "
                    '--config.data.test_splits="()"') from None
  if not size:
    raise DataError(f'split {split!r} of {builder.info.full_name} is empty')
  sides = config.source_language, config.target_language
  made_of = [_READER, builder.info.full_name, split, sides, drop_empty,
             {name: (part.num_examples, int(part.num_bytes)) for name, part in builder.info.splits.items()}]
  return Split(_name(builder, split, size), hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest(),
               size, functools.partial(_read, builder, split, *sides, drop_empty), stem=split)


def _read(builder, split: str, source: str, target: str, drop_empty: bool) -> Iterator[Pair]:
  """Iterate over every pair of a split.

  With `drop_empty`, a side of nothing but spaces becomes empty: the batch plan leaves pairs with an empty side out
  and counts them, so no pass over millions of lines is needed to know how many there are.
  """
  from tensorflow_datasets.proto import tf_example_pb2  # five times faster than decoding by the features
  records = builder.as_data_source(split).data_source
  for start in range(0, len(records), _CHUNK):
    for record in records.__getitems__(list(range(start, min(start + _CHUNK, len(records))))):
      features = tf_example_pb2.Example.FromString(record).features.feature
      texts = [_line(features[side].bytes_list.value[0]) for side in (source, target)]
      yield Pair(*(text if text.strip() or not drop_empty else '' for text in texts))


def _line(data: bytes) -> str:
  text = data.decode()
  return text[:-1] if text.endswith('\r') else text  # TFDS's WMT reader keeps the CR of CR LF


def _name(builder, split: str, size: int) -> str:
  """Return the name to report scores under: that of the published set, with its lines, where TFDS knows it.

  Two sets are called WMT14 English-German test: the full one of 3,003 lines, sacreBLEU's wmt14/full, and the one
  that was scored in 2014, 2,737 lines, sacreBLEU's wmt14. The number of lines tells which one it is.
  """
  subsets = getattr(builder, 'subsets', {}).get(split, ())  # WMT's builders alone have them
  if len(subsets) != 1 or not subsets[0].startswith('news'):
    variant = f'/{builder.builder_config.name}' if builder.builder_config else ''
    return f'{builder.name}{variant} {split}'
  if subsets[0] == 'newstest2014' and set(builder.info.features) == {'de', 'en'} and size in (2737, 3003):
    return f'{"wmt14/full" if size == 3003 else "wmt14"} (newstest2014, {size:,} lines)'
  return counted(subsets[0], size)


# ----------------------------------------------------------------------------------------------------- preparing


def _builder(name: str, data_dir: str | None):
  """Return TFDS's builder of a set, with nothing downloaded yet.

  Raises:
    DataError: when TFDS itself has no such set. Those of a namespace (community:set) are programs that TFDS would
      download and run, and a run's configuration may come from elsewhere.
  """
  if re.match(r'[\w\-]+:[A-Za-z]', name):
    raise DataError(f'{name!r} is a set of others than TFDS, made by a program that TFDS would download and run; set '
                    '--config.data.tfds_name to a set without "…:" before its name')
  _import_nothing_that_a_set_names()
  import tensorflow_datasets as tfds
  import tensorflow_datasets.translate  # noqa: F401  (registers WMT and others; without it they are "not found")
  from tensorflow_datasets.core import registered
  data_dir = os.path.expanduser(data_dir) if data_dir else None
  try:
    with _quietly():
      return tfds.builder(name, data_dir=data_dir, file_format='array_record')
  except DataError:
    raise
  except registered.DatasetNotFoundError:
    family = name.split('/')[0]
    near = difflib.get_close_matches(family, tfds.list_builders(with_community_datasets=False))
    raise DataError(f'TFDS has no set {family!r}; did you mean {" or ".join(near) or "wmt14_translate"}? '
                    'Set --config.data.tfds_name') from None
  except Exception as error:  # TFDS wraps whatever went wrong in an exception of the same class
    if 'File format is already set' in str(error):
      raise DataError(f'{name} in {data_dir or "~/tensorflow_datasets"} was prepared in a format that needs TensorFlow '
                      'to be read; choose another folder with --config.data.tfds_dir, and it will be prepared there '
                      'as array_record') from None
    configs = [found.name for found in getattr(registered.imported_builder_cls(name.split('/')[0]),
                                               'BUILDER_CONFIGS', ())]
    raise DataError(f'TFDS cannot open {name!r} ({_first_line(error)}); variants of {name.split("/")[0]}: '
                    f'{", ".join(configs[:20]) or "none"}. Either direction can be trained from one variant') from None


@functools.cache
def _import_nothing_that_a_set_names() -> None:
  """Keep TFDS from importing modules that a prepared set's features.json names, other than its own."""
  from tensorflow_datasets.core.features import feature
  connector = feature.FeatureConnector
  by_name = connector.cls_from_name

  def cls_from_name(name: str):
    if name not in connector._registered_features and not name.startswith('tensorflow_datasets.'):
      raise DataError(f'the features.json of a prepared set names {name}, which is not of TFDS and would be '
                      'imported; choose another folder with --config.data.tfds_dir')
    return by_name(name)

  connector.cls_from_name = cls_from_name


def _prepared(config: CorpusConfig):
  """Return TFDS's builder of the set, prepared."""
  builder = _builder(config.tfds_name, config.tfds_dir)
  _check_languages(builder, config)
  with _quietly():
    ready = builder.is_prepared()
  if not ready:
    _prepare(builder)
    builder = _builder(config.tfds_name, config.tfds_dir)  # as it lies there, whoever wrote it
  return builder


def _check_languages(builder, config: CorpusConfig) -> None:
  features = builder.info.features
  has = list(features) if hasattr(features, 'keys') else []
  missing = [side for side in (config.source_language, config.target_language) if side not in has]
  if missing:
    raise DataError(f'{builder.info.full_name} has no text named {" or ".join(map(repr, missing))}; it has '
                    f'{", ".join(has) or "no texts by name"}. Set --config.data.source_language and target_language, '
                    'or choose another set with --config.data.tfds_name')


def _prepare(builder) -> None:
  """Download, unpack and write a set. Raises DataError saying what to fetch by hand when that fails."""
  import tensorflow_datasets as tfds
  archives = _missing_archives(builder)
  size = sum(int(info.size) for info in archives.values())
  print(f'Preparing {builder.info.full_name} in {builder.data_dir}, once'
        + (f': {size / 1e9:.1f} GB to download from {_hosts(archives)}' if archives else '') + ' …',
        file=sys.stderr, flush=True)
  if archives and not _reachable(next(iter(archives))):  # TFDS alone would try for minutes
    raise DataError(f'{_hosts(archives)} cannot be reached. {_by_hand(builder, archives)}')
  try:
    with _extracting_without_tensorflow(), _quietly():
      builder.download_and_prepare(file_format='array_record',
                                   download_config=tfds.download.DownloadConfig(try_download_gcs=False))
  except Exception as error:  # downloads, checksums, archives, full disks: TFDS has no common class for them
    if builder.is_prepared():
      return  # a run that started at the same time was faster
    raise DataError(f'{builder.info.full_name} could not be prepared: {_first_line(error)}. '
                    f'{_by_hand(builder, archives)}') from error


@contextlib.contextmanager
def _extracting_without_tensorflow() -> Iterator[None]:
  """Let TFDS unpack archives without TensorFlow: Python's own functions replace the two that TFDS calls."""
  from tensorflow_datasets.core.download import extractor
  before = extractor.tf
  extractor.tf = types.SimpleNamespace(
      compat=types.SimpleNamespace(as_text=str), io=types.SimpleNamespace(gfile=types.SimpleNamespace(GFile=open)))
  try:
    yield
  finally:
    extractor.tf = before


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
  """Silence TFDS's log lines and printed notes, and keep its progress bars to a terminal."""
  import tensorflow_datasets as tfds
  levels = {name: logging.getLogger(name).level for name in ('absl', 'urllib3')}
  for name in levels:
    logging.getLogger(name).setLevel(logging.ERROR)
  if not sys.stderr.isatty():
    tfds.disable_progress_bar()
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      yield
  finally:
    tfds.enable_progress_bar()
    for name, level in levels.items():
      logging.getLogger(name).setLevel(level)


def _missing_archives(builder) -> dict:
  """Return {URL: size, checksum, file name} of what a WMT set has still to download; {} for other sets: not known."""
  from tensorflow_datasets.core.download import checksums, resource
  from tensorflow_datasets.translate import wmt
  if not isinstance(builder, wmt.WmtTranslate):
    return {}
  source, infos, missing = builder.builder_config.language_pair[0], checksums.get_all_url_infos(), {}
  for name in dict.fromkeys(name for names in builder.subsets.values() for name in names):
    subset = wmt.DATASET_MAP[name]
    for url in () if subset.get_manual_dl_files(source) else subset.get_url(source):
      info = infos.get(url)
      if info is None:
        continue
      file = resource.get_dl_fname(url, info.checksum)
      places = (os.path.join(builder.name, file), file, os.path.join('manual', info.filename or file))
      if not any(os.path.exists(os.path.join(_downloads(builder), place)) for place in places):
        missing[url] = info
  return missing


def _downloads(builder) -> str:
  return os.path.join(builder.data_dir_root, 'downloads')


def _hosts(archives: dict) -> str:
  return ' and '.join(dict.fromkeys(urllib.parse.urlparse(url).netloc for url in archives))


def _by_hand(builder, archives: dict) -> str:
  """Return instructions for fetching a set by hand."""
  folder = os.path.join(_downloads(builder), 'manual')
  if not archives:
    return f'Downloads are looked for in {_downloads(builder)}; files fetched by hand belong in {folder}'
  urls = ' '.join(f'-O {url}' for url in archives)
  return ('Fetch the archives on a machine with a network and put them, as they are, where they will be found:\n'
          f'  mkdir -p {folder} && cd {folder} && curl -L {urls}\nThen start the same command again. '
          f'--config.data.tfds_dir names another folder than {builder.data_dir_root}')


def _reachable(url: str) -> bool:
  """Return whether a server answers at all; proxies of the environment are used."""
  try:
    urllib.request.urlopen(urllib.request.Request(url, method='HEAD'), timeout=20).close()
  except urllib.error.HTTPError:
    return True
  except OSError:
    return False
  return True


def _first_line(error: BaseException) -> str:
  return f'{type(error).__name__}: {(str(error).strip().splitlines() or [""])[0][:300]}'


KINDS.add('tfds', Kind(corpus, 'pairs', needs='tfds_name'), 'pairs: a translation set of TFDS, WMT among them',
          uses=('tfds_name', 'tfds_dir', *SPLITS, *SIDES))
