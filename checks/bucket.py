"""The files of a run as objects of a bucket of Google Cloud Storage, through gcsfs.

An object is written in one request, whole or not at all, and what was written is what every process reads from then on.
A bucket has no folders, no renaming and no locks: a folder is what names begin with; to move is to copy all and then to
remove; a lock is a lease (lease.py).
"""

import concurrent.futures
import contextlib
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from checks import cache_root, lease
from checks.errors import ConfigError, FileError
from checks.storage import Claim, Lines, Storage

# gcsfs would first ask of which kind a bucket is (zonal, hierarchical), which takes a minute where it is not Google's.
# Names with slashes mean the same in all of them.
os.environ.setdefault('GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT', 'false')

_ROLES = 'give the account the roles Storage Object User and Storage Legacy Bucket Reader on the bucket'
_BLOCK = 64 << 20  # bytes read at a time
_OF_SERVICE = re.compile('gs://|googleapis|HttpError|ClientError|ClientOSError|ServerDisconnected|UNAVAILABLE|CURL|HTTP')
_UPLOAD_SECONDS = 10.0  # at least so long between two uploads of a file of lines


class Bucket(Storage):
  """Objects of any bucket; their paths begin with gs:// and the bucket's name."""

  def __init__(self):
    """Connect with the credentials that Google's libraries find. Raises ConfigError where gcsfs is not installed."""
    try:
      import fsspec.config
      import gcsfs
    except ImportError as error:
      raise ConfigError(f'a folder in a bucket (gs://) needs the package gcsfs, which is not installed ({error}): '
                        'pip install gcsfs') from None
    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)  # errors are raised, too
    # Others write to the bucket, too: nothing that was listed before is true now. Orbax takes its own from this, too.
    fsspec.config.conf.setdefault('gs', {})['use_listings_cache'] = False
    self._files: Any = gcsfs.GCSFileSystem(use_listings_cache=False)

  def absolute(self, path: str) -> str:
    return path.rstrip('/')

  def shown(self, path: str) -> str:
    return path

  def on_disk(self, path: str, name: str, shared: bool = False) -> str:
    own = () if shared else ('runs', hashlib.sha256(path.encode()).hexdigest()[:20])
    return os.path.join(cache_root.root(), *own, name)

  def reach(self, path: str) -> None:
    name, folder = _split(path)
    try:
      self._files.call('GET', 'b/{}', name)  # Orbax asks this, too
      self._files.call('GET', 'b/{}/o', name, prefix=f'{folder}/', maxResults=1)
    except FileNotFoundError:
      raise ConfigError(f'{path}: there is no bucket {name}; make it (gcloud storage buckets create gs://{name}), or give '
                        'another') from None
    except Exception as error:
      if _is_refused(error):
        raise ConfigError(f'{path}: the bucket {name} may not be read with the credentials that were found '
                          f'({_words(error)}); log in (gcloud auth application-default login), or {_ROLES}') from None
      raise FileError(f'{path} cannot be reached ({_words(error)}); look at the network, and give the same command again'
                      ) from None

  def is_file(self, path: str) -> bool:
    try:
      self.generation(path)
    except FileNotFoundError:
      return False
    return True

  def is_folder(self, path: str) -> bool:
    return bool(self.names(path))

  def is_elsewhere(self, path: str) -> bool:
    del path
    return False

  def names(self, folder: str) -> list[str]:
    start = '/'.join(_split(folder)).rstrip('/') + '/'
    with _naming(folder), contextlib.suppress(FileNotFoundError):
      # An empty object of the folder's own name, as Google's pages make it, is not in the folder.
      return sorted({name.removeprefix(start).rstrip('/') for name in self._files.ls(folder, detail=False)
                     if name.startswith(start) and name != start})
    return []

  def read(self, path: str) -> bytes:
    with _naming(path):
      return self._files.cat_file(path)

  def sum_of(self, path: str) -> str:
    with _naming(path):
      return self._sum(path, int(self._object(path)['size']))

  def sums_of(self, folder: str) -> dict[str, str]:
    with _naming(folder), concurrent.futures.ThreadPoolExecutor(8) as pool:
      sizes = self._sizes(folder)
      sums = pool.map(lambda name: self._sum(os.path.join(folder, name), sizes[name]), sizes)
      return dict(zip(sizes, sums))

  def _sizes(self, folder: str) -> dict[str, int]:
    """Return the size of every object below a folder, by its path relative to it."""
    start = '/'.join(_split(folder)).rstrip('/') + '/'
    return {name.removeprefix(start): int(entry['size']) for name, entry in self._files.find(folder, detail=True).items()
            if name.startswith(start) and not name.endswith('/')}

  def _sum(self, path: str, size: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, size, _BLOCK):
      digest.update(self._files.cat_file(path, start, min(start + _BLOCK, size)))
    return digest.hexdigest()

  def write(self, path: str, data: bytes | str) -> None:
    with _naming(path):
      self._files.pipe_file(path, data.encode() if isinstance(data, str) else data)

  def lines(self, path: str) -> Lines:
    return _ObjectOfLines(self, path)

  def make_folder(self, folder: str) -> None:
    del folder

  def move(self, path: str, target: str) -> None:
    pairs = ([(path, target)] if self.is_file(path) else
             [(os.path.join(path, name), os.path.join(target, name)) for name in self._sizes(path)])
    with _naming(path), concurrent.futures.ThreadPoolExecutor(8) as pool:
      list(pool.map(lambda pair: self._files.cp_file(*pair), pairs))
      list(pool.map(lambda pair: self._remove(pair[0]), pairs))

  def remove(self, path: str) -> None:
    with _naming(path):
      self._remove(path)

  def _remove(self, path: str) -> None:
    """Remove an object; one that is gone has been removed by an attempt whose answer was lost."""
    with contextlib.suppress(FileNotFoundError):
      self._files.rm_file(path)

  def remove_folder(self, folder: str, but: str | None = None) -> None:
    """Remove every object below a folder, but the one of the name `but`."""
    with _naming(folder), concurrent.futures.ThreadPoolExecutor(8) as pool:
      names = [name for name in self._sizes(folder) if name != but]
      list(pool.map(lambda name: self._remove(os.path.join(folder, name)), names))

  def claim(self, folder: str) -> Claim:
    return _Leased(self, folder)

  def free(self, folder: str) -> int | None:
    del folder
    return None

  def blamed(self, error: Exception) -> str | None:
    return _words(error) if isinstance(error, FileError) or _OF_SERVICE.search(f'{type(error).__name__} {error}') else None

  def probe(self, folder: str) -> int | None:
    path = os.path.join(folder, 'probe.unfinished')
    self.write(path, bytes(4096))
    self.remove(path)
    return self.free(folder)

  # ----------------------------------------------------------------------------------------- conditions, for leases

  def _object(self, path: str) -> dict[str, Any]:
    """Return what the service says of an object, with `now`, its clock's time."""
    headers, content = self._files.call('GET', 'b/{}/o/{}', *_split(path))
    return json.loads(content) | {'now': headers.get('Date')}

  def generation(self, path: str) -> str:
    """Return the generation of an object, which is another one whenever it is written."""
    with _naming(path):
      return self._object(path)['generation']

  def described(self, path: str) -> lease.Found | None:
    """Return an object with what a condition on it needs; None when there is none."""
    with _naming(path), contextlib.suppress(FileNotFoundError):
      about = self._object(path)
      return lease.Found(self._files.cat_file(path), about['generation'], about['updated'], about['now'])
    return None

  def write_if(self, path: str, data: bytes, generation: str) -> str | None:
    """Write an object if its generation is still this one ('0': if there is none).

    Returns:
      The new generation; None when another process has written it.
    """
    bucket, name = _split(path)
    address = self._files.base.replace('/storage/v1/', '/upload/storage/v1/') + f'b/{bucket}/o'
    with _naming(path), contextlib.suppress(FileExistsError):
      return self._files.call('POST', address, uploadType='media', name=name, ifGenerationMatch=generation, data=data,
                              headers={'Content-Type': 'application/octet-stream'}, json_out=True)['generation']
    return None

  def remove_if(self, path: str, generation: str) -> None:
    """Remove an object if its generation is still this one."""
    with _naming(path), contextlib.suppress(FileExistsError, FileNotFoundError):
      self._files.call('DELETE', 'b/{}/o/{}', *_split(path), ifGenerationMatch=generation)


class _Leased(Claim):
  """A lease on a folder, in its object `lock`."""

  def __init__(self, bucket: Bucket, folder: str):
    self._bucket = bucket
    self._lease = lease.Lease(bucket, folder, os.path.join(folder, 'lock'))

  def release(self) -> None:
    self._lease.release()

  def discard(self, folder: str) -> None:
    self._bucket.remove_folder(folder, but='lock')
    self._lease.release()


class _ObjectOfLines(Lines):
  """An object that is written anew, whole: at most every few seconds, and when it has to be settled."""

  def __init__(self, bucket: Bucket, path: str):
    self._bucket, self._path, self._is_new = bucket, path, False
    self._content = bytearray(bucket.read(path) if bucket.is_file(path) else b'')
    self._uploaded = time.monotonic()

  def write(self, line: str) -> None:
    self._content += line.encode()
    self._is_new = True
    if time.monotonic() - self._uploaded >= _UPLOAD_SECONDS:
      with contextlib.suppress(FileError):  # nothing is lost: the next upload has these lines, too
        self.settle()
      self._uploaded = time.monotonic()

  def settle(self) -> None:
    if self._is_new:
      self._bucket.write(self._path, bytes(self._content))
      self._is_new, self._uploaded = False, time.monotonic()

  def close(self) -> None:
    self.settle()


def _split(path: str) -> tuple[str, str]:
  """Return the bucket of a path, and the name of the object in it."""
  bucket, _, name = path.removeprefix('gs://').partition('/')
  return bucket, name


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
  """Turn errors of the connection or the service into a FileError that names the path."""
  try:
    yield
  except (FileNotFoundError, FileExistsError, FileError):
    raise
  except Exception as error:
    remedy = _ROLES if _is_refused(error) else 'look at the network'
    raise FileError(f'{path} cannot be read or written: {_words(error)}; {remedy}, and give the same command again'
                    ) from error


def _is_refused(error: Exception) -> bool:
  """Return whether the service has refused these credentials, or there are none."""
  return (str(getattr(error, 'code', '')) in ('401', '403') or str(error).startswith('Forbidden')
          or 'credentials' in str(error).lower())


def _words(error: Exception) -> str:
  """Return what an error says, in one line."""
  return ' '.join(str(error).split())[:300] or type(error).__name__
