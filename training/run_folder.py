"""The folder of a run: which files it holds, who may write to it, and which options may change when a run resumes.

    manifest.json     the sums of all that decides a result, see manifest.py
    config.json       the resolved configuration      vocabulary.model  or source.model and target.model
    environment.json  versions, devices, data hashes  words.txt.gz      source words that training has seen
    metrics.jsonl     one line per measurement        checkpoints/      Orbax
    results.json      the final scores                tensorboard/      events
    suggestions.json  example sentences to try        samples/          what the model writes for test and validation
    labels.json       a classifier's labels, in the order of its outputs
    imported.json     where an imported model comes from; such a run has learnt nothing itself (exchange/importing.py)
    attention/        attention at evaluations, with train.watch_attention (explorer/snapshots.py)
    damaged/          checkpoints and other files that changed after they were written
    earlier/          what --begin_anew has set aside (history.py)
    replaced/         a checkpoint, until another one of its step is whole
    nonfinite/        the states before updates that were not finite, for --replay
    profile/          a profile of a few steps, with train.profile_steps
    data/             token stores, and vocabularies by what they were made of; may be deleted at any time

In a bucket, tensorboard/, profile/ and data/ lie on each host's disk instead, in the user's cache (checks/bucket.py).
Nothing in it is code. compile_cache/, in folders of earlier versions, is not read; it may be deleted.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from checks import exit_codes, files
from checks.errors import ConfigError, DamagedError, FileError, config_errors
from checks.storage import Busy, Claim
from configs import default
from corpora import cleaning, marian_vocabulary
from corpora.vocabulary import Vocabulary
from options.configurations import is_one_of, leaves
from training import saved_config
from training.as_found import AsFound
from training.environment import counterparts, texts_of
from training.history import History
from training.json_files import as_json, as_written, read_json
from training.manifest import NAME, Manifest

# Options that may differ from the saved configuration when a run resumes; any other would change what it computes.
# init_from may until there is a checkpoint.
MAY_CHANGE = ('compile', 'compile_cache', 'mesh', 'model.attention_kernel', 'search', 'init_from', 'data.cache_dir',
              'data.num_threads',
              'data.directory', 'data.tsv', 'data.jsonl', 'data.tfds_dir', 'data.text', 'data.validation_text',
              'data.test_text', 'data.test_splits',  # from data.directory: where text is, which is compared by fingerprint
              'vocabulary.source_model', 'vocabulary.target_model',
              'train.loss_chunks', 'train.num_steps', 'train.num_epochs', 'train.num_minutes', 'train.log_every', 'train.eval_every',
              'train.first_eval', 'train.checkpoint_every', 'train.keep_last', 'train.keep_best',
              'train.average_last', 'train.patience', 'train.eval_sentences', 'train.num_samples', 'train.max_skipped',
              'train.watch_attention', 'train.stall_seconds', 'train.heartbeat_seconds', 'train.profile_steps', 'train.peak_tflops')
# The files without which a run cannot go on; what else is damaged can be made again, and is set aside.
ESSENTIAL = ('config.json', 'vocabulary.model', 'source.model', 'target.model')
_MADE_AGAIN = ('words.txt.gz', 'suggestions.json', 'labels.json', 'environment.json', 'results.json')
# What a start that was killed before it wrote config.json may leave.
_BEGINNINGS = {'lock', 'config.json.unfinished', NAME, f'{NAME}.unfinished'}


class FolderBusyError(Exception):
  """Another process works in the folder; scripts end with this exit code."""

  exit_code = exit_codes.FOLDER_BUSY


class FolderFullError(Exception):
  """The folder has no room for a checkpoint; scripts end with this exit code."""

  exit_code = exit_codes.CHECKPOINT


class RunFolder:
  """The paths in a run's folder, and the files that keep it: those of a disk or of a bucket.

  As a context manager, it releases the folder's lock at the end.
  """

  def __init__(self, workdir: str):
    self.files = files.of(workdir)
    self.path = self.files.absolute(workdir)
    place = lambda name: os.path.join(self.path, name)
    on_disk = lambda name: self.files.on_disk(self.path, name)
    self.config, self.environment, self.results = place('config.json'), place('environment.json'), place('results.json')
    self.metrics, self.words, self.samples = place('metrics.jsonl'), place('words.txt.gz'), place('samples')
    self.checkpoints, self.labels, self.nonfinite = place('checkpoints'), place('labels.json'), place('nonfinite')
    self.tensorboard, self.profile = on_disk('tensorboard'), on_disk('profile')
    # Token stores: those that are the same in every run on the same text; and those of this run's epochs.
    self.data, self.epochs = self.files.on_disk(self.path, 'data', shared=True), on_disk('data')
    self._text = place('data')  # where all of it may lie in the folder itself
    self.attention, self.suggestions, self.imported = map(place, ('attention', 'suggestions.json', 'imported.json'))
    self._joint, self._source, self._target = place('vocabulary.model'), place('source.model'), place('target.model')
    self.manifest = Manifest(self.path)
    self._history = History(self.path, self.manifest)
    self._claim: Claim | None = None
    self.is_new = False  # whether this start has made it
    self._has_text = False  # whether an earlier start, which was given up, has left text
    self.found: AsFound | None = None  # of an existing run

  @classmethod
  def open(cls, workdir: str) -> 'RunFolder':
    """Return the folder of an existing run, to be read.

    Raises:
      ConfigError: when it holds no run.
      DamagedError: naming each file that differs from what the run wrote.
    """
    folder = cls(workdir)
    folder.files.reach(folder.path)
    folder.manifest.check()
    if not folder.manifest.exists() and folder.has(folder.config):
      _say_once(f'Note: {workdir} has no {NAME}: its files are taken as they are. It was made by an earlier version, or '
                'has lost it; train.py writes one when the run resumes.')
    if not folder.has(folder.config):
      found = folder.files.names(folder.path)[:10] if folder.files.is_folder(folder.path) else None
      raise ConfigError(f'{workdir} is not a run: it holds no config.json, which train.py writes; '
                        + ('the folder does not exist' if found is None else f'found: {", ".join(found) or "nothing"}'))
    return folder

  def has(self, path: str) -> bool:
    """Return whether the folder holds this one of its files."""
    return self.files.is_file(path)

  def locked(self) -> 'RunFolder':
    """Lock the folder, which is made where it does not exist, until the end of the context that it is.

    Raises:
      ConfigError: when the folder cannot hold a run.
      FileError: when checkpoints/ is a link that leads nowhere.
      FolderBusyError: when another process works there.
    """
    self._check_place()
    try:
      self._claim = self._claim or self.files.claim(self.path)
    except Busy as error:
      raise FolderBusyError(f'{self.path} is in use by {error}; stop it, or give another --workdir') from None
    return self

  def create_or_resume(self, config: dict, bound: Sequence[str] = (), anew: bool = False, idle: Collection[str] = ()
                       ) -> 'RunFolder':
    """Lock the folder, unless it is, for a run of `config`: a new one, or one that was saved with the same options.

    Args:
      config: the resolved configuration, a plain dict; where it leaves open what the run has decided
        (default.DECIDED; once it has learnt something, init_from), the run's own value is taken over, unless it begins anew.
      bound: names in MAY_CHANGE that may not change in this run.
      anew: whether to set aside what the run has learnt and measured, and begin at step 0.
      idle: names of options that have no effect beside the others, and so may change.

    Raises:
      ConfigError: naming each option that differs and may not; or when the folder cannot hold a run.
      DamagedError: naming each file that the run cannot go on without and that differs from what was written.
      FolderBusyError: when another process works there.
    """
    self.locked()
    try:
      self.is_new = self._is_new()
      if self.is_new:
        self._has_text = self.files.is_folder(self._text)
        self.manifest.begin()
      else:
        self._verify(anew)
      if self.has(self.config) and not anew:
        saved = self.read_config()
        config = saved_config.with_decided(config, saved)
        if self.manifest.checkpoints():  # its first parameters came from there, or from nowhere
          bound, config = (*bound, 'init_from'), config | {'init_from': config['init_from'] or saved['init_from']}
      self._check_same(config, bound, {*idle, *(default.DECIDED if anew else ())})
    except (ConfigError, DamagedError):
      self._release()
      raise
    if anew and not self.is_new:
      self._history.set_aside()
    if not self.is_new:
      self.found = AsFound(self.path, self.manifest)
    self.write_json(self.config, config)
    self.files.make_folder(self.samples)
    return self

  def write(self, path: str, data: bytes) -> None:
    """Write a file of the folder that decides a result, whole, and list it in the manifest."""
    self.manifest.write(os.path.relpath(path, self.path), data)

  def write_json(self, path: str, content: Any) -> None:
    """Write such a file as JSON."""
    self.write(path, as_json(content).encode())

  def _verify(self, anew: bool) -> None:
    """Check the files of an existing run; those that can be made again are set aside where they are damaged."""
    if not self.manifest.exists():
      print(f'Note: {self.path} has no {NAME}: it was made by an earlier version, or has lost it. Its files are taken as '
            'they are, and are listed from now on.', flush=True)
      self._refuse_lost_history(anew)
      texts = texts_of(self.environment) if self.has(self.environment) else {}
      self.manifest.adopt((*ESSENTIAL, *_MADE_AGAIN), texts)
    problems = self.manifest.check(lambda name: name in ESSENTIAL)
    if any(name.startswith('samples') for name in problems):  # which are made with the results
      problems.setdefault('results.json', 'is made together with samples/')
    for name, problem in problems.items():
      print(f'Note: {os.path.join(self.path, name)} {problem}. It is made again'
            + (f'; what was there lies in damaged/{name}.' if 'missing' not in problem else '.'), flush=True)
      if self.has(os.path.join(self.path, name)):
        self.files.move(os.path.join(self.path, name), os.path.join(self.path, 'damaged', name))
    self.manifest.forget(problems)

  def _refuse_lost_history(self, anew: bool) -> None:
    """Raise DamagedError when a run without a manifest has measured something and has no checkpoint."""
    there = any(name.isdigit() for name in self.files.names(self.checkpoints))
    if not there and not anew and self.has(self.metrics) and self.files.read(self.metrics):
      raise DamagedError(f'{self.path} holds the measurements of a run, but neither {NAME} nor a checkpoint: is the disk '
                         'of checkpoints/ mounted? Put them back, or begin at step 0 with --begin_anew')

  def read_config(self) -> dict[str, Any]:
    """Return the saved configuration, with the present names of renamed options.

    Options newer than the run get their defaults, which behave as the program did without them.

    Raises:
      ConfigError, DamagedError: see saved_config.read.
    """
    return saved_config.read(self.config)

  def give_up(self, leaves_text: bool = False) -> None:
    """Take back what this start has written, so that a mistake found while preparing does not bind the next attempt.

    The folder of a new run is removed; that of an existing one has its configuration again, and its history.

    Args:
      leaves_text: whether data/ of a new run stays. What lies there is named by a hash of all that decides it: a start with
        the same text and vocabulary goes on from it, whatever its other options are.
    """
    if self.is_new and (leaves_text or self._has_text) and self.files.is_folder(self._text):
      self._remove_all_but_text()
    elif self.is_new:
      self._claim.discard(self.path)
    elif self.found:
      self._history.bring_back()
      self.found.put_back()

  def _is_new(self) -> bool:
    """Return whether the folder holds no run yet: nothing, or what a start may leave that was killed or found no room."""
    rest = set(self.files.names(self.path)) - _BEGINNINGS
    return (not rest or rest == {'data'} and not self.manifest.read()['files']) and not self.manifest.checkpoints()

  def _remove_all_but_text(self) -> None:
    with contextlib.suppress(OSError):  # which, on a full disk, must not hide why the start is given up
      self.manifest.begin()  # first: what is not listed is not missed
      for name in set(self.files.names(self.path)) - {*_BEGINNINGS, 'data'}:
        path = os.path.join(self.path, name)
        (self.files.remove if self.has(path) else self.files.remove_folder)(path)
      print(f'Note: what was made of the text stays in {self._text}; a start with the same text and vocabulary goes on from '
            'it, in this --workdir.', flush=True)

  def probe(self, num_bytes: int) -> None:
    """Raise FolderFullError when the disk of the checkpoints has no room for a further one of `num_bytes`."""
    linked = self.files.is_elsewhere(self.checkpoints)
    place = self.checkpoints if linked else self.path
    named = f'{place}, which lies on a disk of its own,' if linked else f'--workdir={place}'
    try:
      free = self.files.probe(place)
    except OSError as error:
      raise FolderFullError(f'{named} cannot be written to: {error.strerror}') from None
    if free is not None and free < num_bytes:
      raise FolderFullError(f'{named} has {free:,} bytes free, and a checkpoint takes about {num_bytes:,}; make room, or '
                            'give another')

  def _check_place(self) -> None:
    self.files.reach(self.path)
    try:
      self.files.make_folder(self.path)
      found = self.files.names(self.path)
    except OSError as error:
      raise ConfigError(f'--workdir={self.path} cannot be a folder: {error.strerror}; give another') from None
    if os.path.islink(self.checkpoints) and not self.files.is_folder(self.checkpoints):
      raise FileError(f'{self.checkpoints} is a link to {os.readlink(self.checkpoints)}, which is no folder. Is the disk that '
                      'holds them mounted? Mount it; or remove the link, and begin at step 0 with --begin_anew')
    if not {NAME, 'config.json'} & set(found) and set(found) - _BEGINNINGS:
      raise ConfigError(f'--workdir={self.path} is not a run and not empty; it holds {", ".join(found[:10])}; '
                        'give a new folder, or that of a run')

  def _check_same(self, config: dict, bound: Sequence[str], free: Collection[str]) -> None:
    if self.has(self.config):
      saved, asked = leaves(self.read_config()), leaves(as_written(config))
      wrong = [f'{name} is {asked.get(name)!r}, the run has {saved.get(name)!r}'
               for name in sorted(saved.keys() | asked.keys())
               if (name in bound or not may_change(name)) and name not in free
               and decisive(name, saved.get(name)) != decisive(name, asked.get(name))]
      if wrong:
        raise ConfigError(f'{self.path} holds a run with another configuration:\n  ' + '\n  '.join(wrong)
                          + '\nGive the same values to resume it, or another --workdir.')

  def _release(self) -> None:
    if self._claim:
      self._claim.release()
      self._claim = None

  def __enter__(self) -> 'RunFolder':
    return self

  def __exit__(self, *_) -> None:
    self._release()

  def has_vocabularies(self) -> bool:
    """Return whether the folder holds the run's vocabularies."""
    return self.has(self._joint) or self.has(self._source) and self.has(self._target)

  def save_vocabularies(self, source: bytes, target: bytes | None) -> None:
    """Write SentencePiece models: one when target is None (joint), else two."""
    for path, model in ((self._joint, source),) if target is None else ((self._source, source), (self._target, target)):
      self.write(path, model)

  def load_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
    """Return the (source, target) vocabularies; the same object twice when joint.

    Raises:
      FileError: when they are not there.
    """
    if self.has(self._joint):
      return (marian_vocabulary.load(self._joint),) * 2
    if not self.has_vocabularies():
      raise FileError(f'{self.path} has lost its vocabulary: {self._missing_vocabularies()}; put it back from a copy '
                      'of the folder')
    return marian_vocabulary.load(self._source), marian_vocabulary.load(self._target)

  def _missing_vocabularies(self) -> str:
    """Return in words which files of vocabularies are missing."""
    missing = [os.path.basename(path) for path in (self._source, self._target) if not self.has(path)]
    if len(missing) == 1:  # the other one is there
      return f'{missing[0]} is missing'
    expected = 'vocabulary.model' if self.read_config()['vocabulary']['joint'] else ' and '.join(missing)
    return f'{expected} is missing (vocabulary.model, or source.model and target.model)'

  def check_data(self, hashes: dict[str, str], by_name: dict[str, str] | None = None) -> None:
    """Raise ConfigError when the run was begun with other text.

    Args:
      hashes: fingerprints of train, validation and each test set, in this order. Their names may differ, since files
        may move. Test sets may be added and removed. Earlier versions listed the begins of some: see Split.kept.
      by_name: as earlier versions listed them: of splits that share a name, the last alone. A run that such a version
        began goes on.
    """
    if (before := self.manifest.read()['texts']) and before != by_name:
      then = counterparts(hashes, before)
      wrong = [name for name, old in then.items() if not hashes[name].startswith(old)]
      if wrong or len(hashes) < min(2, len(before)):
        by_python = any(hashes[name][:64] == then[name][:64] for name in wrong)  # of the same text, filters keep other pairs
        raise ConfigError(f'{self.path} was begun with other text than {", ".join(wrong or hashes)} now holds; '
                          'give the same text' + ' with the Python of environment.json, by whose tables data.drop_control '
                          'and min_letters keep pairs' * by_python + ', or another --workdir')

  def record_environment(self, now: dict[str, Any]) -> None:
    """Write environment.json: the environment of the run's first start, and that of each later start that differs."""
    starts = [now]
    if self.has(self.environment):
      first = read_json(self.environment)
      starts = [first, *first.pop('later_starts', [])]
      starts += [now] if starts[-1] != now else []
    self.write_json(self.environment, starts[0] | ({'later_starts': starts[1:]} if starts[1:] else {}))
    with self.manifest.changing() as content:
      content['texts'] = max(content['texts'], now['data'], key=len)  # with every test set that the run has had

  def check_stores(self, sums: Mapping[str, str], record: bool = True) -> None:
    """Compare token stores with those that the run has read before, by fingerprint.

    Args:
      sums: the sum of each store's list of sums.
      record: whether to list new ones: in one process of a run.

    Raises:
      DamagedError: when the same text and vocabulary gave other tokens before.
    """
    listed = self.manifest.read()['stores']
    if wrong := [name for name, value in sums.items() if listed.get(name, value) != value]:
      raise DamagedError(f'the token store {wrong[0]} is not the one that {self.path} was trained on: it was exchanged, or '
                         'this version of SentencePiece or of this project cuts the same text in another way; put it '
                         'back, or install the versions and the commit of environment.json')
    if record and sums.keys() - listed.keys():
      with self.manifest.changing() as content:
        content['stores'] = listed | dict(sums)


@functools.cache
def _say_once(text: str) -> None:
  print(text, file=sys.stderr, flush=True)


def decisive(name: str, value: Any) -> Any:
  """Return what of an option's value decides a result: of data.mix not the folders, whose text has a fingerprint."""
  if name == 'init_from' and value:
    return value.rstrip('/') if '://' in value else files.DISK.absolute(value)
  if name != 'data.mix' or not value:
    return value
  with config_errors():
    return [cleaning.source_of(text)[1:] for text in value]


def may_change(name: str) -> bool:
  """Return whether an option, by its dotted name, may change when a run goes on."""
  return is_one_of(name, MAY_CHANGE)
