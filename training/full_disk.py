"""A full disk as Orbax reports it: how its error is recognised, and which further reports of it are left out.

Checkpoints explains a failed save in one sentence. Each thread of the save would log the traceback of its own failure
besides, and each array whose write ends after the failure prints one about the closed event loop that waited for it.
"""

import errno
import logging
import re
import sys
from typing import Any

_WORDS = re.compile('RESOURCE_EXHAUSTED|No space left|[Qq]uota|File too large')


def is_cause(error: BaseException) -> bool:
  """Return whether an error of saving means that the disk, or what may be used of it, is full."""
  return getattr(error, 'errno', None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or bool(_WORDS.search(str(error)))


def report_once() -> None:
  """Leave out of stderr what only repeats the error of a failed save; everything else is reported as before."""
  for name in ('absl', 'asyncio'):
    logging.getLogger(name).addFilter(_is_news)
  before = sys.unraisablehook

  def hook(args: Any) -> None:
    if args.object is not None or str(args.exc_value) != 'Event loop is closed':
      before(args)

  sys.unraisablehook = hook


def _is_news(record: logging.LogRecord) -> bool:
  error = record.exc_info[1] if record.exc_info else None
  return not (error and is_cause(error))
