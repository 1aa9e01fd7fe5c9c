"""Everything around a run that is not training: lock, other processes, signals, watchdog, lack of memory, exit code.

    with supervise(guards, folder, saved, bound) as run:
      …                      # a stop raises Stopped out of run.interruptible(), or shows in run.is_stopping()
    return run.exit_code

docs/reliability.md lists what each part promises.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from checks.errors import FileError, file_error
from checks.exit_codes import CHECKPOINT, CONFIG, DATA, DONE
from checks.refusals import refuse
from training import failures, peers
from training.run_folder import FolderFullError, RunFolder
from training.stopping import Stopped, StopRequest
from training.watchdog import Watchdog

Result = TypeVar('Result')


@dataclasses.dataclass(frozen=True)
class GuardConfig:
  """The limits beyond which a run ends itself. Raises ValueError on creation."""

  max_skipped: int  # updates in a row that are not finite
  stall_seconds: float  # without progress; 0: no limit
  heartbeat_seconds: int  # without a sign of life from another process

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.max_skipped < 1:
      yield f'max_skipped is {self.max_skipped}; expected a positive number of updates'
    if self.stall_seconds < 0:
      yield f'stall_seconds is {self.stall_seconds}; expected 0 (never) or a positive number of seconds'
    if self.heartbeat_seconds < 5:
      yield f'heartbeat_seconds is {self.heartbeat_seconds}; expected 5 or more'


@dataclasses.dataclass
class Supervision:
  """What surrounds a run while it trains: its folder, stop requests and watchdog, and the exit code it will have."""

  folder: RunFolder
  stop: StopRequest
  watchdog: Watchdog
  exit_code: int = DONE
  saved: int | None = None  # the last step that was saved once training began, -1 for none, for the message after a stop

  def interruptible(self, function: Callable[..., Result], *inputs: Any) -> Result:
    """Return function(*inputs); a stop abandons it and raises Stopped. It must change nothing that is saved."""
    return self.stop.run(function, *inputs)

  def is_stopping(self) -> bool:
    """Return whether a stop was requested. Every process of a run has to call this equally often."""
    self.watchdog.beat()
    return self.stop.is_asked()

  def progress(self, finished: int = 0) -> None:
    """Record that an evaluation or the final scoring goes on; one that a stop has abandoned is no progress of the run."""
    del finished  # lines, which count alike
    if not self.stop.exit_code:
      self.watchdog.beat()


@contextlib.contextmanager
def supervise(guards: GuardConfig, folder: RunFolder, saved: Mapping[str, Any], bound: Sequence[str],
              remedies: failures.MemoryOptions, anew: bool = False, idle: Collection[str] = (), only_looks: bool = False
              ) -> Iterator[Supervision]:
  """Connect to the other processes, lock a run's folder, and turn what ends the block into a message and an exit code.

  Args:
    guards: the limits beyond which the run ends itself.
    folder: the run's; new, or that of a run with the same configuration.
    saved: the configuration as config.json holds it.
    bound: options that may usually change when a run resumes, but not in this one.
    remedies: the options that messages about lack of memory name.
    anew, idle: whether a run that the folder holds is to begin at step 0, and options without effect, see
      RunFolder.create_or_resume.
    only_looks: whether the block trains and scores nothing.

  A block that ends before training begins has only looked: what it has written into a new folder is taken back but for
  text, so that another start may have other options, see RunFolder.give_up. That of a run which is there is kept, since it
  may have scored it anew, unless `only_looks`.

  Raises:
    Exception: as the block does. Where training has not begun what this start has written is taken back, too; text as
      well where it, or an option, is what a user has to correct.
  """
  peers.join(guards.heartbeat_seconds)
  # Until the folder is locked, which may take half a minute in a bucket, a signal ends the program at once.
  with (peers.errors_end_all(), folder.locked() if peers.is_main() else folder, StopRequest() as stop,
        Watchdog(guards.stall_seconds) as watchdog, failures.lack_of_memory_named(remedies)):
    if peers.is_main():
      folder.create_or_resume(saved, bound, anew, idle)
    run = Supervision(folder, stop, watchdog)
    try:
      yield run
    except Stopped:
      pass
    except Exception as error:
      # Once training has begun there is something to lose, and a text that has gone since then is no reason to lose it.
      found = file_error(error)
      if run.saved is None:
        is_mistake = getattr(found, 'exit_code', None) in (CONFIG, DATA, CHECKPOINT)
        folder.give_up(leaves_text=not is_mistake or isinstance(found, (FileError, FolderFullError)))
      raise
    if run.saved is None and (not stop.exit_code if folder.is_new else only_looks):
      folder.give_up(leaves_text=True)
    if stop.exit_code:
      print(('Stopped before training began.' if run.saved is None else 'Stopped before anything was saved.'
             if run.saved < 0 else f'Stopped at step {run.saved:,}, saved.') + f' The same command{" without --begin_anew" * anew} resumes from here.', flush=True)
      peers.leave()
      run.exit_code = stop.exit_code
