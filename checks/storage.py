"""What a run does with its files, as one set of methods that a disk (disk.py) and a bucket (bucket.py) each have.

Paths of both are joined with os.path.join. A file appears whole or not at all in both. What else a run needs of a disk
(memory-mapped token stores, TensorBoard's events, a profile) lies on the disk of each host: see on_disk().
"""

import abc


class Busy(Exception):
  """Another process holds what claim() asked for; the message names it, such as 'process 12 on host'."""


class Claim(abc.ABC):
  """The right to write into a folder, which one process has at a time."""

  @abc.abstractmethod
  def release(self) -> None:
    """Let others claim the folder; without effect when that was done before."""

  @abc.abstractmethod
  def discard(self, folder: str) -> None:
    """Remove the folder with all that is in it, and release it."""


class Lines(abc.ABC):
  """A file of text that grows at its end, line by line."""

  @abc.abstractmethod
  def write(self, line: str) -> None:
    """Add a line."""

  @abc.abstractmethod
  def settle(self) -> None:
    """Return once everything that was added is in the file."""

  @abc.abstractmethod
  def close(self) -> None:
    """Settle, and close the file."""


class Storage(abc.ABC):
  """What a run does with its files. Methods that read raise FileNotFoundError when there is no such file."""

  @abc.abstractmethod
  def absolute(self, path: str) -> str:
    """Return a path that means the same wherever the program is."""

  @abc.abstractmethod
  def shown(self, path: str) -> str:
    """Return an absolute path as one types it on a command line."""

  @abc.abstractmethod
  def on_disk(self, path: str, name: str, shared: bool = False) -> str:
    """Return a folder on this host's disk for what a run cannot keep elsewhere.

    Args:
      path: of the run's folder.
      name: of what lies there.
      shared: whether runs may share it, because what lies there is named by a hash of its content.
    """

  @abc.abstractmethod
  def reach(self, path: str) -> None:
    """Raise ConfigError when nothing can lie at a path, whatever its name: there is no such bucket, or no access to it."""

  @abc.abstractmethod
  def is_file(self, path: str) -> bool:
    """Return whether there is a file."""

  @abc.abstractmethod
  def is_folder(self, path: str) -> bool:
    """Return whether there is a folder; in a bucket, one that holds something."""

  @abc.abstractmethod
  def is_elsewhere(self, path: str) -> bool:
    """Return whether a folder of this path lies in another place: it is a link, or the root of another disk."""

  @abc.abstractmethod
  def names(self, folder: str) -> list[str]:
    """Return the names of what a folder holds, in order; none when there is no such folder."""

  @abc.abstractmethod
  def read(self, path: str) -> bytes:
    """Return the content of a file."""

  @abc.abstractmethod
  def sum_of(self, path: str) -> str:
    """Return the SHA-256 of a file."""

  @abc.abstractmethod
  def sums_of(self, folder: str) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by the file's path relative to it."""

  @abc.abstractmethod
  def write(self, path: str, data: bytes | str) -> None:
    """Write a file, whole or not at all; text as UTF-8."""

  @abc.abstractmethod
  def lines(self, path: str) -> Lines:
    """Open a file of lines, to add some at its end."""

  @abc.abstractmethod
  def make_folder(self, folder: str) -> None:
    """Make a folder, with those above it, where there is none."""

  @abc.abstractmethod
  def move(self, path: str, target: str) -> None:
    """Move a file or a folder; what stops meanwhile leaves one of the two whole. `target` may be a file, not a folder."""

  @abc.abstractmethod
  def remove(self, path: str) -> None:
    """Remove a file."""

  @abc.abstractmethod
  def remove_folder(self, folder: str) -> None:
    """Remove a folder with all that is in it, where there is one."""

  @abc.abstractmethod
  def claim(self, folder: str) -> Claim:
    """Return the right to write into a folder. Raises Busy while another process has it."""

  @abc.abstractmethod
  def free(self, folder: str) -> int | None:
    """Return the bytes that may still be written; None where there is no limit."""

  @abc.abstractmethod
  def blamed(self, error: Exception) -> str | None:
    """Return in words what a library's error says of the connection or the service; None when that is not its cause."""

  @abc.abstractmethod
  def probe(self, folder: str) -> int | None:
    """Write a small file and remove it; return what free() does.

    Raises:
      OSError: when the file cannot be written.
    """
