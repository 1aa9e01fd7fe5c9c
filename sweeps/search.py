"""A search for the values of options that give the lowest validation loss: `sweep.py --search`, by optuna.

Each trial is a run in a folder of its own, trial_N/seed_0, one after the other. WORKDIR/search.json lists the trials: a
trial's values are written there before it starts, so a search that is killed goes on with the same trial, from its newest
checkpoint. Which values are tried depends on the sampler's seed, the trial's number and the trials before it alone.

The first trial has the configuration's own values, if they lie in the ranges, so that the gain of the best is known. A
trial whose validation loss is above the median of the earlier ones at the same step is stopped, by SIGTERM.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from checks import children
from checks.errors import ConfigError, DamagedError
from checks.exit_codes import CONFIG, DONE, NON_FINITE, OUT_OF_MEMORY, UNEXPECTED
from options.configurations import decides_nothing, leaves
from options.search_ranges import Range
from options.sweep_options import SweepOptions
from sweeps import finished_rows, queue
from training.json_files import as_written, read_json, read_lines, write_json
from training.run_folder import RunFolder

try:
  import optuna
  from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
  from optuna.trial import TrialState
except ImportError:
  raise ConfigError('--search needs the package optuna, which is not installed: pip install "optuna>=4,<5"') from None

JOURNAL = 'search.json'
RUNNING, FINISHED, STOPPED, DIVERGED, REFUSED = 'running', 'finished', 'stopped early', 'diverged', 'refused'
# What optuna calls them. Of trials that were stopped or diverged it knows that they are worse than finished ones.
_STATES = {FINISHED: TrialState.COMPLETE, STOPPED: TrialState.PRUNED, DIVERGED: TrialState.PRUNED, REFUSED: TrialState.FAIL}
_DIGITS = 3  # of the values that are tried, so that they can be typed


class TrialFailedError(Exception):
  """A trial that ended with an error, which has nothing to do with its values; the script ends with its exit code."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


@dataclasses.dataclass
class Trial:
  """One trial, as search.json has it."""

  number: int
  values: dict[str, Any]  # by the option's dotted name
  state: str = RUNNING
  loss: float | None = None  # -log p per token of validation text, of the parameters that a finished run ends with
  evaluations: list[tuple[int, float]] = dataclasses.field(default_factory=list)  # the loss at a step of training
  step: int | None = None
  seconds: float | None = None
  reason: str = ''  # why it was refused

  @property
  def name(self) -> str:
    """The name of its row, which is that of its folder."""
    return f'trial_{self.number}'


@dataclasses.dataclass
class Journal:
  """The trials of a search, and what was searched."""

  options: SweepOptions
  trials: list[Trial]

  @property
  def path(self) -> str:
    """Where it is kept."""
    return os.path.join(self.options.workdir, JOURNAL)

  @property
  def finished(self) -> list[Trial]:
    """The trials that have a loss, the best first."""
    return sorted((trial for trial in self.trials if trial.state == FINISHED), key=lambda trial: trial.loss or 0.0)

  @property
  def current(self) -> Trial | None:
    """The trial that is under way."""
    return next((trial for trial in self.trials if trial.state == RUNNING), None)

  def write(self) -> None:
    """Write search.json, whole."""
    write_json(self.path, {'of': _identity(self.options), 'optuna': optuna.__version__,
                           'trials': [dataclasses.asdict(trial) for trial in self.trials]})


def read(options: SweepOptions) -> Journal:
  """Return the journal in the folder of a search, or a new one.

  Raises:
    ConfigError: naming each difference, when the folder holds another search.
    DamagedError: when search.json is not what a search wrote.
  """
  assert options.search is not None
  journal = Journal(options, [])
  if not os.path.isfile(journal.path):
    return journal
  found = read_json(journal.path)
  try:
    before, now = dict(found['of']), _identity(options)
    wrong = [f'{name} was {before[name]}, now it is {now[name]}' for name in now
             if before.get(name, now[name]) != now[name]]  # options that are newer than the search have no other value
    journal.trials = [] if wrong else [Trial(**trial | {'values': _typed(options.search.ranges, trial['values'])})
                                       for trial in found['trials']]
  except (TypeError, KeyError, ValueError) as error:
    raise DamagedError(f'{journal.path} is not what a search wrote ({error}); put it back from a copy') from None
  if wrong:
    raise ConfigError(f'{journal.path} is of another search:\n  ' + '\n  '.join(wrong)
                      + '\nGive the same to go on with it, or another --workdir.')
  return journal


def _identity(options: SweepOptions) -> dict[str, Any]:
  """Return what makes two searches the same, as search.json has it."""
  assert options.search is not None
  config = {f'config.{name}': value for name, value in leaves(options.rows[0].config).items()
            if name != 'seed' and not decides_nothing(name)}
  return as_written({'ranges': ','.join(sorted(one.written for one in options.search.ranges)),
                     'whole_trials': options.search.whole_trials, 'min_steps': options.search.min_steps,
                     'sampler_seed': options.search.sampler_seed, **config})


def check(options: SweepOptions) -> None:
  """Refuse a search whose trials could only fail, before any is trained.

  Raises:
    ConfigError: naming every mistake of the configuration, and of it with the first and with the last value of each range.
  """
  assert options.search is not None
  ends = {name: {one.option: one.values[place] for one in options.search.ranges}
          for name, place in (('with the first values', 0), ('with the last values', -1))}
  queue.check(options.with_values(ends))


def search(options: SweepOptions, say: Callable[[str], Any] = print) -> Journal:
  """Train trials until there are as many as asked for, and return all; search.json has them at any time.

  Raises:
    ConfigError, DamagedError: see read().
    children.Stopped: on Ctrl-C and SIGTERM.
    TrialFailedError: when a run fails for a reason that is not its values.
  """
  assert options.search is not None
  journal = read(options)
  if journal.trials and journal.current is None:
    say(f'{len(journal.trials)} trials were made before.')
  with children.stop_signals() as stops:
    while journal.current or len(journal.trials) < options.search.trials:
      ours, theirs = _decide(journal)
      if ours not in journal.trials:
        journal.trials.append(ours)
        os.makedirs(options.workdir, exist_ok=True)
        journal.write()
      try:
        _finish(journal, ours, theirs, stops, say)
      except children.StopAsked as stop:
        raise children.Stopped(f'Stopped in trial {ours.number}, of {options.search.trials} trials 0, 1, … '
                            f'The same command resumes from here.{stop}', stops.exit_code) from None
      journal.write()
  return journal


# ----------------------------------------------------------------------------------------------------- one trial


def _finish(journal: Journal, ours: Trial, theirs: optuna.Trial, stops: children.Stops, say: Callable[[str], Any]) -> None:
  """Train a trial to its end, or until it is worse than the median of the others, and record its outcome."""
  assert journal.options.search is not None
  head = f'[{ours.number + 1}/{max(len(journal.trials), journal.options.search.trials)}] trial {ours.number}'
  say(f'{head}: {_in_words(ours.values)}')
  try:
    asked = journal.options.with_values({ours.name: ours.values})
    queue.check(asked)
  except ConfigError as error:
    ours.state, ours.reason = REFUSED, str(error)
    say(f'{head}: refused: {error}')
    return
  run, = queue.queue(asked)
  watch = _Watch(theirs, run, _text_before(journal))
  code, last = queue.finish(run, head, stops, lambda: say(f'{head}: another process trains it; waiting for that'), watch)
  is_worse = watch()  # also of what was measured after the last look
  if watch.other_text:
    raise TrialFailedError(f'{head} reads other text or vocabularies than the trials before it '
                           f'({", ".join(watch.other_text)}), and their losses would not compare: put them back and delete '
                           f'{run.folder.path} to go on, or give another --workdir', CONFIG)
  ours.evaluations = sorted(watch.seen.items())
  ours.step, ours.seconds = watch.step, watch.seconds
  # A trial may have come to its end before it could be stopped; one that was to be stopped before it went on has no results.
  if code == DONE and os.path.isfile(run.folder.results):
    ours.evaluations = watch.all_evaluations()
    results = read_json(run.folder.results)
    ours.step, ours.seconds, loss = results['step'], results['seconds'], _loss(results['validation_perplexity'])
    if not math.isfinite(loss):
      ours.state = DIVERGED
      say(f'{head}: diverged: its validation loss is {loss}')
      return
    ours.state, ours.loss = FINISHED, loss
    best = journal.finished[0]
    say(f'{head}: validation loss {loss:.4f} after {ours.step:,} steps in {results["seconds"] / 60:.1f} min'
        + (f'; the best is {best.loss:.4f}, of trial {best.number}' if best is not ours else ', the best so far'))
  elif is_worse:
    ours.state = STOPPED
    say(f'{head}: stopped after step {ours.evaluations[-1][0]:,}, validation loss {ours.evaluations[-1][1]:.4f}: above the '
        'median of earlier trials there')
  elif code == NON_FINITE:
    ours.state = DIVERGED
    say(f'{head}: diverged: {last}')
  elif code in (CONFIG, OUT_OF_MEMORY) and journal.finished:  # others were trained, so it is for the values
    ours.state, ours.reason = REFUSED, last
    say(f'{head}: refused: {last}')
  else:
    raise TrialFailedError(f'{head}: {children.unfinished(code, last)}\n    its output is in {run.log}\n'
                           'The same command tries this trial again and goes on.', code if code > 0 else UNEXPECTED)


class _Watch:
  """Follows a run's measurements and says when it is worse than the median of the trials before it."""

  def __init__(self, trial: optuna.Trial, run: queue.QueuedRun, text: Mapping[str, str] | None = None):
    self._trial, self._folder, self._metrics, self._text = trial, run.folder, run.folder.metrics, text or {}
    self._epochs = run.config['train']['num_epochs']
    self._end = run.config['train']['num_steps'] or math.inf  # where nothing is left to be saved by stopping
    self.seen: dict[int, float] = {}  # the loss at each evaluation, by step
    self.step: int | None = None
    self.seconds: float | None = None
    self.other_text: list[str] = []  # what of _text_of() is not that of earlier trials
    self._is_worse = False

  def __call__(self) -> bool:
    """Read what has been measured since the last call, up to where the trial is worse; return whether it is to stop."""
    if self._text and not self.other_text:
      now = _text_of(self._folder)
      self.other_text = [name for name in self._text if now.get(name, self._text[name]) != self._text[name]]
      self._text = {name: content for name, content in self._text.items() if name not in now}  # what is compared stays so
    if self.other_text:
      return True
    for line in self._lines():
      if self._is_worse:
        break
      self.seconds = line.get('seconds', self.seconds)
      if self._epochs and line.get('epoch') and self._end == math.inf:
        self._end = math.ceil(self._epochs * round(line['step'] / line['epoch']))  # by the number of updates in an epoch
      if 'validation/perplexity' in line and line['step'] not in self.seen:
        step, loss = line['step'], _loss(line['validation/perplexity'])
        self.step, self.seen[step] = step, loss
        self._trial.report(loss, step)
        self._is_worse = step < self._end and self._trial.should_prune()
    return self._is_worse

  def all_evaluations(self) -> list[tuple[int, float]]:
    """Return the loss at each evaluation of a run that has come to its end."""
    return sorted({line['step']: _loss(line['validation/perplexity']) for line in self._lines()
                   if 'validation/perplexity' in line}.items())

  def _lines(self) -> Iterator[Mapping[str, Any]]:
    with contextlib.suppress(DamagedError):  # not there yet; train.py says when it is damaged
      yield from read_lines(self._metrics)


def _text_of(folder: RunFolder) -> dict[str, str]:
  """Return the hashes of a run's training and validation text, by the names of the splits, and then of its vocabularies.

  What is not there yet is left out.
  """
  found: dict[str, str] = {}
  with contextlib.suppress(DamagedError):
    found |= list(read_json(folder.environment)['data'].items())[:2]
  with contextlib.suppress(DamagedError):
    found |= {'vocabulary': ' '.join(known)} if (known := finished_rows.vocabularies_of(folder)) else {}
  return found


def _text_before(journal: Journal) -> dict[str, str]:
  """Return the text that a trial is to read: _text_of() the first that is over, where that has a folder.

  The training text is left out where ranges are of options that say what of it is read.
  """
  assert journal.options.search is not None
  over = [trial for trial in journal.trials if trial.state != RUNNING]
  runs = (queue.queue(journal.options.with_values({trial.name: trial.values}))[0] for trial in over)
  text = list(next(filter(None, (_text_of(run.folder) for run in runs)), {}).items())
  return dict(text[any(one.option.startswith('data.') for one in journal.options.search.ranges):])


def _loss(perplexity: float | None) -> float:
  return math.log(perplexity) if perplexity and perplexity > 0 else math.nan  # metrics.jsonl has null where it is not finite


# ------------------------------------------------------------------------------------------------ what is tried next


def _decide(journal: Journal) -> tuple[Trial, optuna.Trial]:
  """Return the trial that is under way or the next one, and what stands for it in optuna.

  optuna's own record is made anew from the journal each time, and its sampler is seeded for each trial, so that a search
  that goes on decides as one that was never interrupted.
  """
  options = journal.options.search
  assert options is not None
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  before = [trial for trial in journal.trials if trial.state != RUNNING]
  seed = int(np.random.SeedSequence([options.sampler_seed, len(before)]).generate_state(1)[0])
  study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed),
                              pruner=optuna.pruners.MedianPruner(options.whole_trials, options.min_steps))
  distributions = {one.option: _distribution(one) for one in options.ranges}
  for trial in before:
    study.add_trial(optuna.trial.create_trial(
        state=_STATES[trial.state], value=trial.loss if trial.state == FINISHED else None,
        params=_to_optuna(options.ranges, trial.values), distributions=distributions,
        intermediate_values={step: loss for step, loss in trial.evaluations}))
  given = journal.current.values if journal.current else own_values(journal.options) if not before else None
  if given is not None:
    study.enqueue_trial(_to_optuna(options.ranges, given))
  theirs = study.ask(distributions)
  values = _from_optuna(options.ranges, theirs.params) if given is None else given
  return journal.current or Trial(len(before), values), theirs


def own_values(options: SweepOptions) -> dict[str, Any] | None:
  """Return the configuration's own values; None when one lies outside of its range."""
  assert options.search is not None
  values = leaves(options.rows[0].config)
  inside = all(one.holds(values[one.option]) for one in options.search.ranges)
  return {one.option: values[one.option] for one in options.search.ranges} if inside else None


def _distribution(one: Range) -> BaseDistribution:
  """Return a range as optuna's; choices are known to it by their places."""
  if one.scale == 'choice':
    return CategoricalDistribution(range(len(one.values)))
  kind = IntDistribution if all(isinstance(value, int) for value in one.values) else FloatDistribution
  return kind(*one.values, log=one.scale == 'log')


def _to_optuna(ranges: Sequence[Range], values: Mapping[str, Any]) -> dict[str, Any]:
  """Return values of options as optuna knows them, see _distribution()."""
  return {one.option: one.values.index(values[one.option]) if one.scale == 'choice' else values[one.option]
          for one in ranges}


def _typed(ranges: Sequence[Range], values: Mapping[str, Any]) -> dict[str, Any]:
  """Return the values of a trial in search.json as they were before they were written: JSON has no tuples."""
  place = lambda one: as_written(one.values).index(values[one.option])
  return {one.option: one.values[place(one)] if one.scale == 'choice' else values[one.option] for one in ranges}


def _from_optuna(ranges: Sequence[Range], found: Mapping[str, Any]) -> dict[str, Any]:
  """Return what optuna drew as values of options, numbers with three digits."""
  values = {}
  for one in ranges:
    drawn = found[one.option]
    if one.scale == 'choice':
      values[one.option] = one.values[drawn]
    else:
      rounded = type(one.values[0])(float(f'{drawn:.{_DIGITS}g}'))
      values[one.option] = min(max(rounded, one.values[0]), one.values[1])
  return values


def _in_words(values: Mapping[str, Any]) -> str:
  return ', '.join(f'{option}={value}' for option, value in values.items())
