"""The folder of a run: which files it holds, who may write to it, and which options may change when a run resumes.

    config.json       the resolved configuration      vocabulary.model  or source.model and target.model
    environment.json  versions, devices, data hashes  words.txt.gz      source words that training has seen
    metrics.jsonl     one line per measurement        checkpoints/      Orbax
    results.json      the final scores                tensorboard/      events
    suggestions.json  example sentences to try        samples/          what the model writes for test and validation
    labels.json       a classifier's labels, in the order of its outputs
    attention/        attention at evaluations, with train.watch_attention (explorer/snapshots.py)
    damaged/          checkpoints whose files changed after they were saved
    nonfinite/        the states before updates that were not finite, for --replay
    profile/          a profile of a few steps, with train.profile_steps
    data/             token stores, and compile_cache/: both may be deleted at any time
"""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from checks import exit_codes
from checks.errors import ConfigError, FileError
from checks.whole_files import write_whole
from configs import default
from corpora.vocabulary import Vocabulary
from options.configurations import leaves
from options.mistakes import listed
from options.option_types import type_mistakes

# Options that may differ from the saved configuration when a run resumes; any other would change what it computes.
MAY_CHANGE = ('compile', 'compile_cache', 'mesh', 'search', 'init_from', 'data.cache_dir', 'data.num_threads',
              # the place of the text; its content is compared by fingerprint
              'data.directory', 'data.tsv', 'data.jsonl', 'data.tfds_dir', 'data.text', 'data.validation_text',
              'data.test_text', 'data.test_splits',
              'vocabulary.source_model', 'vocabulary.target_model',
              'train.num_steps', 'train.num_epochs', 'train.num_minutes', 'train.log_every', 'train.eval_every',
              'train.first_eval', 'train.checkpoint_every', 'train.keep_last', 'train.keep_best',
              'train.average_last', 'train.patience', 'train.eval_sentences', 'train.num_samples', 'train.max_skipped',
              'train.watch_attention', 'train.stall_seconds', 'train.heartbeat_seconds', 'train.profile_steps', 'train.peak_tflops')
PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'tensorflow-datasets', 'sentencepiece',
            'sacrebleu', 'ml_collections', 'numpy')


class FolderBusyError(Exception):
  """Another process works in the folder; scripts end with this exit code."""

  exit_code = exit_codes.FOLDER_BUSY


class FolderFullError(Exception):
  """The folder has no room for a checkpoint; scripts end with this exit code."""

  exit_code = exit_codes.CHECKPOINT


def write_json(path: str, content: Any) -> None:
  """Write a file of JSON, whole or not at all."""
  write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + '\n')


def read_json(path: str) -> Any:
  """Return what write_json wrote."""
  with open(path, encoding='utf-8') as file:
    return json.load(file)


def read_lines(path: str) -> list[dict[str, Any]]:
  """Return the records of a file of JSON lines, such as metrics.jsonl, without an unfinished last line."""
  with open(path, encoding='utf-8') as file:
    return [json.loads(line) for line in file if line.endswith('\n')]


def as_written(content: Any) -> Any:
  """Return what read_json returns after write_json: tuples become lists."""
  return json.loads(json.dumps(content))


class RunFolder:
  """The paths in a run's folder. As a context manager, it releases the folder's lock at the end."""

  def __init__(self, workdir: str):
    if '://' in workdir:
      raise ConfigError(
          f'--workdir={workdir}: a run cannot live in a bucket: its lock (flock), its memory-mapped token store and '
          'the renames that make writes atomic need a file system; give a folder on a disk, shared by all hosts of the '
          'run, and copy it to the bucket afterwards')
    self.path = os.path.abspath(os.path.expanduser(workdir))
    place = lambda name: os.path.join(self.path, name)
    self.config, self.environment, self.results = place('config.json'), place('environment.json'), place('results.json')
    self.metrics, self.words, self.data = place('metrics.jsonl'), place('words.txt.gz'), place('data')
    self.checkpoints, self.tensorboard, self.samples = place('checkpoints'), place('tensorboard'), place('samples')
    self.compile_cache, self.suggestions = place('compile_cache'), place('suggestions.json')
    self.labels, self.nonfinite, self.profile = place('labels.json'), place('nonfinite'), place('profile')
    self.attention = place('attention')
    self._joint, self._source, self._target = place('vocabulary.model'), place('source.model'), place('target.model')
    self._lock, self._new = None, False

  @classmethod
  def open(cls, workdir: str) -> 'RunFolder':
    """Return the folder of an existing run. Raises ConfigError when it holds no run."""
    folder = cls(workdir)
    if not os.path.isfile(folder.config):
      found = sorted(os.listdir(folder.path))[:10] if os.path.isdir(folder.path) else None
      raise ConfigError(f'{workdir} is not a run: it holds no config.json, which train.py writes; '
                        + ('the folder does not exist' if found is None else f'found: {", ".join(found) or "nothing"}'))
    return folder

  def create_or_resume(self, config: dict, bound: Sequence[str] = ()) -> 'RunFolder':
    """Lock the folder for a run of `config`: a new run, or one that was saved with the same configuration.

    Args:
      config: the resolved configuration, a plain dict.
      bound: names in MAY_CHANGE that may not change in this run.

    Raises:
      ConfigError: naming each option that differs and may not; or when the folder cannot hold a run.
      FolderBusyError: when another process works there.
    """
    self._check_place()
    self._acquire()
    try:
      self._check_same(config, bound)
    except ConfigError:
      self._lock.close()
      raise
    self._new = not os.path.isfile(self.config)
    write_json(self.config, config)
    os.makedirs(self.samples, exist_ok=True)
    return self

  def read_config(self) -> dict[str, Any]:
    """Return the saved configuration, with the present names of renamed options.

    Options newer than the run get their defaults, which behave as the program did without them.

    Raises:
      ConfigError: when the file is damaged, or options are of other types than in configs/default.py.
    """
    try:
      saved = _renamed(read_json(self.config))
    except (ValueError, AttributeError) as error:
      raise ConfigError(f'{self.config} is damaged: {error}; expected what train.py wrote') from None
    if mistakes := list(type_mistakes(saved)):
      raise ConfigError(f'{self.config} is not what train.py wrote: {listed(mistakes)}')
    return _laid_over(saved, as_written(default.get_config().to_dict()))

  def give_up(self) -> None:
    """Remove what a new run has made so far, so that a mistake found while preparing does not bind the next attempt."""
    if self._new:
      shutil.rmtree(self.path)

  def probe(self, num_bytes: int) -> None:
    """Raise FolderFullError when the disk has no room for a further checkpoint of `num_bytes`."""
    path = os.path.join(self.path, 'probe.unfinished')
    try:
      with open(path, 'wb') as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
      free = shutil.disk_usage(self.path).free
    except OSError as error:
      raise FolderFullError(f'--workdir={self.path} cannot be written to: {error.strerror}') from None
    finally:
      with contextlib.suppress(OSError):
        os.remove(path)
    if free < num_bytes:
      raise FolderFullError(f'--workdir={self.path} has {free:,} bytes free, and a checkpoint takes about '
                            f'{num_bytes:,}; make room, or give another')

  def _check_place(self) -> None:
    try:
      os.makedirs(self.path, exist_ok=True)
      found = sorted(os.listdir(self.path))
    except OSError as error:
      raise ConfigError(f'--workdir={self.path} cannot be a folder: {error.strerror}; give another') from None
    if 'config.json' not in found and set(found) - {'lock', 'config.json.unfinished'}:
      raise ConfigError(f'--workdir={self.path} is not a run and not empty; it holds {", ".join(found[:10])}; '
                        'give a new folder, or that of a run')

  def _check_same(self, config: dict, bound: Sequence[str]) -> None:
    if os.path.isfile(self.config):
      saved, asked = leaves(self.read_config()), leaves(as_written(config))
      wrong = [f'{name} is {asked.get(name)!r}, the run has {saved.get(name)!r}'
               for name in sorted(saved.keys() | asked.keys())
               if (name in bound or not _may_change(name)) and saved.get(name) != asked.get(name)]
      if wrong:
        raise ConfigError(f'{self.path} holds a run with another configuration:\n  ' + '\n  '.join(wrong)
                          + '\nGive the same values to resume it, or another --workdir.')

  def _acquire(self) -> None:
    self._lock = open(os.path.join(self.path, 'lock'), 'a+', encoding='utf-8')
    try:
      fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
      self._lock.seek(0)
      owner = self._lock.read().strip() or 'another process'
      self._lock.close()
      raise FolderBusyError(f'{self.path} is in use by {owner}; stop it, or give another --workdir') from None
    self._lock.truncate(0)
    self._lock.write(f'process {os.getpid()} on {socket.gethostname()}')
    self._lock.flush()

  def __enter__(self) -> 'RunFolder':
    return self

  def __exit__(self, *_) -> None:
    if self._lock:
      self._lock.close()

  def has_vocabularies(self) -> bool:
    """Return whether the folder holds the run's vocabularies."""
    return os.path.isfile(self._joint) or os.path.isfile(self._source) and os.path.isfile(self._target)

  def save_vocabularies(self, source: bytes, target: bytes | None) -> None:
    """Write SentencePiece models: one when target is None (joint), else two."""
    for path, model in ((self._joint, source),) if target is None else ((self._source, source), (self._target, target)):
      write_whole(path, model)

  def load_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
    """Return the (source, target) vocabularies; the same object twice when joint.

    Raises:
      FileError: when they are not there.
    """
    if os.path.isfile(self._joint):
      return (Vocabulary.load(self._joint),) * 2
    if not self.has_vocabularies():
      raise FileError(f'{self.path} has lost its vocabulary: {self._missing_vocabularies()}; put it back from a copy '
                      'of the folder')
    return Vocabulary.load(self._source), Vocabulary.load(self._target)

  def _missing_vocabularies(self) -> str:
    """Return in words which files of vocabularies are missing."""
    missing = [os.path.basename(path) for path in (self._source, self._target) if not os.path.isfile(path)]
    if len(missing) == 1:  # the other one is there
      return f'{missing[0]} is missing'
    expected = 'vocabulary.model' if self.read_config()['vocabulary']['joint'] else ' and '.join(missing)
    return f'{expected} is missing (vocabulary.model, or source.model and target.model)'

  def check_data(self, hashes: dict[str, str]) -> None:
    """Raise ConfigError when the run was begun with other text.

    Args:
      hashes: fingerprints of train, validation and each test set, in this order. Their names may differ, since files
        may move. Test sets may be added and removed.
    """
    if os.path.isfile(self.environment):
      first = read_json(self.environment)
      starts = [first, *first.get('later_starts', [])]
      before = max((start['data'] for start in starts), key=len)  # with every test set that the run has had
      wrong = [name for name, old in _counterparts(hashes, before).items() if old != hashes[name]]
      if wrong or len(hashes) < min(2, len(before)):
        raise ConfigError(f'{self.path} was begun with other text than {", ".join(wrong or hashes)} now holds; '
                          'give the same text, or another --workdir')

  def record_environment(self, now: dict[str, Any]) -> None:
    """Write environment.json: the environment of the run's first start, and that of each later start that differs."""
    starts = [now]
    if os.path.isfile(self.environment):
      first = read_json(self.environment)
      starts = [first, *first.pop('later_starts', [])]
      starts += [now] if starts[-1] != now else []
    write_json(self.environment, starts[0] | ({'later_starts': starts[1:]} if starts[1:] else {}))


def _laid_over(tree: dict, ground: dict) -> dict:
  """Return `ground` with the values of `tree` in place of its own; sections are merged option by option."""
  both = {name: _laid_over(tree[name], ground[name]) for name in tree.keys() & ground.keys()
          if isinstance(tree[name], dict) and isinstance(ground[name], dict)}
  return ground | tree | both


def _counterparts(now: dict[str, str], before: dict[str, str]) -> dict[str, str]:
  """Return the fingerprint that each present split had before, by its present name; new test sets are left out.

  A test set's counterpart is the earlier one of the same name, or else the one at the same position, unless that one
  still goes by its own name.
  """
  first, last = list(before.items())[:2], list(before.items())[2:]
  found = {name: fingerprint for name, (_, fingerprint) in zip(now, first)}
  for place, name in enumerate(list(now)[2:]):
    if name in before:
      found[name] = before[name]
    elif place < len(last) and last[place][0] not in now:
      found[name] = last[place][1]
  return found


def _renamed(tree: dict) -> dict:
  """Return a saved configuration with the present names and values of options that have been renamed."""
  for old, new in default.RENAMED.items():
    section, _, leaf = old.rpartition('.')
    found = tree
    for part in filter(None, section.split('.')):
      found = found.get(part, {})
    if leaf in found:
      value = default.RENAMED_VALUES.get(old, lambda same: same)(found.pop(leaf))
      *sections, leaf = new.split('.')
      place = tree
      for part in sections:
        place = place.setdefault(part, {})
      place.setdefault(leaf, as_written(value))
  return tree


def _may_change(name: str) -> bool:
  return any(name == free or name.startswith(f'{free}.') for free in MAY_CHANGE)


def environment(devices: list, data: dict[str, str]) -> dict[str, Any]:
  """Return what a result depends on besides the configuration: code, versions, hardware and data."""
  here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
  git = lambda *words: subprocess.run(['git', '-C', here, *words], capture_output=True, text=True, check=True).stdout
  try:
    commit, changed = git('rev-parse', 'HEAD').strip(), bool(git('status', '--porcelain', '-uno').strip())
  except (OSError, subprocess.CalledProcessError):  # no git on this machine, or no repository
    commit, changed = None, None
  return {
      'commit': commit, 'uncommitted_changes': changed, 'command': sys.argv, 'python': platform.python_version(),
      'packages': {name: importlib.metadata.version(name) for name in PACKAGES},
      'platform': platform.platform(), 'cores': os.cpu_count(),
      'devices': [f'{device.platform} {device.device_kind}' for device in devices], 'data': data}
