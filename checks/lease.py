"""A lease: the right to write into a folder of a bucket, held by the process that its object `lock` names.

The object is made on the condition that there is none, and renewed every few seconds on the condition that it is still
the one that was written last. So of several processes one gets it, and one that has lost it notices. A lease that was
not renewed for EXPIRY seconds is free. That of a dead process on the same host is free at once.
"""

import datetime
import email.utils
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from typing import Any, NamedTuple, Protocol

from checks.exit_codes import FOLDER_BUSY
from checks.storage import Busy

RENEWAL, EXPIRY = 5.0, 30.0  # seconds
_POLL = 1.0


class Found(NamedTuple):
  """An object, with what a condition on it needs."""

  data: bytes
  generation: str
  updated: str  # when it was written, by the service's clock, as ISO 8601 …
  now: str | None  # … and when it was read, as in the header of an answer


class Conditional(Protocol):
  """A bucket that writes on a condition; see bucket.Bucket."""

  def described(self, path: str) -> Found | None:
    """Return an object, or None."""

  def write_if(self, path: str, data: bytes, generation: str) -> str | None:
    """Write an object if it has this generation; return the new one, or None."""

  def remove_if(self, path: str, generation: str) -> None:
    """Remove an object if it has this generation."""


class Lease:
  """A lease that this process holds, and renews in a thread of its own."""

  def __init__(self, bucket: Conditional, folder: str, path: str):
    """Take the lease, waiting for the end of one that another host holds and does not renew.

    Args:
      bucket: that holds it.
      folder: that it is for, for messages.
      path: of its object.

    Raises:
      Busy: when a living process holds it.
    """
    self._bucket, self._folder, self._path = bucket, folder, path
    self._holder = {'host': socket.gethostname(), 'boot': _boot(), 'pid_namespace': _namespace(), 'pid': os.getpid(),
                    'started': _started(os.getpid()), 'token': uuid.uuid4().hex}
    self._ended = threading.Event()
    self._generation = self._taken()
    self._thread = threading.Thread(target=self._renew, daemon=True)
    self._thread.start()

  def release(self) -> None:
    """Give the lease back; without effect when that was done before."""
    if not self._ended.is_set():
      self._ended.set()
      self._thread.join(2 * RENEWAL)
      self._bucket.remove_if(self._path, self._generation)

  def _taken(self) -> str:
    """Return the generation of the object once it names this process. Raises Busy."""
    waited_for, until = None, 0.0
    while True:
      found = self._bucket.described(self._path)
      holder = _holder(found.data) if found else {}
      if found and holder.get('token') != self._holder['token']:
        if self._is_on_this_host(holder):
          if _started(holder['pid']) == holder['started']:
            raise Busy(_named(holder))
        elif waited_for is None:
          waited_for, left = found.generation, EXPIRY - _age(found)
          until = time.monotonic() + left
          if left > 0:
            print(f'{self._folder} is in use by {_named(holder)}, or was until that died: waiting up to {left:.0f} s for a '
                  'sign of life …', file=sys.stderr, flush=True)
        elif found.generation != waited_for:
          raise Busy(_named(holder))
        if waited_for is not None and time.monotonic() < until:
          time.sleep(min(_POLL, max(until - time.monotonic(), 0)))
          continue
      if generation := self._written(found.generation if found else '0'):
        return generation

  def _written(self, generation: str) -> str | None:
    """Write the lease if the object still has this generation; return the new one, or None."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
    return self._bucket.write_if(self._path, json.dumps(self._holder | {'heartbeat': now}).encode(), generation)

  def _renew(self) -> None:
    last = time.monotonic()
    while not self._ended.wait(RENEWAL):
      try:
        if (written := self._written(self._generation)) is None:
          written = self._found_again(time.monotonic() - last)
      except Exception:  # the network; as long as nobody else takes the lease, it is ours
        continue
      self._generation, last = written, time.monotonic()

  def _found_again(self, silent: float) -> str:
    """Return the lease's generation if a renewal arrived whose answer was lost; else end the program.

    Args:
      silent: seconds since the last renewal.
    """
    found = self._bucket.described(self._path)
    holder = _holder(found.data) if found else {}
    if found and holder.get('token') == self._holder['token']:
      return found.generation
    print(f'error: {self._folder} was taken over by {_named(holder)}, because this process could not renew its lease for '
          f'{silent:.0f} s; it ends, and the other goes on from the last checkpoint', file=sys.stderr, flush=True)
    os._exit(FOLDER_BUSY)

  def _is_on_this_host(self, holder: dict[str, Any]) -> bool:
    """Return whether a holder's number of a process means the same here."""
    return all(holder.get(name) == self._holder[name] for name in ('host', 'boot', 'pid_namespace'))


def _holder(data: bytes) -> dict[str, Any]:
  """Return what a lease says of its holder; nothing when it is no lease."""
  try:
    content = json.loads(data)
  except ValueError:
    return {}
  return content if isinstance(content, dict) else {}


def _named(holder: dict[str, Any]) -> str:
  return f'process {holder["pid"]} on {holder["host"]}' if {'pid', 'host'} <= holder.keys() else 'another process'


def _age(found: Found) -> float:
  """Return the seconds since an object was written, by the service's own clock; 0 when that is not known."""
  try:
    now = email.utils.parsedate_to_datetime(found.now or '')
    return max((now - datetime.datetime.fromisoformat(found.updated)).total_seconds(), 0.0)
  except (ValueError, TypeError):
    return 0.0


def _started(pid: int) -> str | None:
  """Return when a process of this host was started; None when it is dead. Its number alone may be another one's by now."""
  try:
    with open(f'/proc/{int(pid)}/stat', encoding='utf-8', errors='replace') as file:
      state, *rest = file.read().rpartition(')')[2].split()
    return None if state in 'ZX' else rest[18]
  except FileNotFoundError:
    if os.path.isdir('/proc/self'):
      return None
  found = subprocess.run(['ps', '-o', 'lstart=', '-p', str(int(pid))], capture_output=True, text=True)
  return found.stdout.strip() or None


def _boot() -> str:
  """Return what tells one start of this host from another, where it is known."""
  try:
    with open('/proc/sys/kernel/random/boot_id', encoding='ascii') as file:
      return file.read().strip()
  except OSError:
    return ''


def _namespace() -> str:
  """Return what tells the processes of one container from those of another, where it is known."""
  try:
    return os.readlink('/proc/self/ns/pid')
  except OSError:
    return ''
