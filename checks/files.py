"""Where files lie: on a disk, or in a bucket.

    files.of('runs/phrasebook')  # the Disk
    files.of('gs://bucket/run')  # the Bucket
"""

import functools
import os

from checks.disk import Disk
from checks.errors import ConfigError
from checks.storage import Storage

DISK = Disk()


def of(path: str | os.PathLike[str]) -> Storage:
  """Return what keeps the files at a path.

  Raises:
    ConfigError: for addresses other than gs://, and where the package that a bucket needs is not installed.
  """
  path = os.fspath(path)
  if '://' not in path:
    return DISK
  if not path.startswith('gs://') or not path.removeprefix('gs://').strip('/'):
    raise ConfigError(f'{path}: expected a folder on a disk, or in a bucket of Google Cloud Storage, gs://BUCKET/FOLDER')
  return _bucket()


@functools.cache
def _bucket() -> Storage:
  from checks import bucket  # here, since it takes half a second to import, and most runs need none
  return bucket.Bucket()
