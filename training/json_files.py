"""Files of JSON that a run writes and reads: whole records, and measurements line by line."""

import io
import json
from typing import Any

from checks import files
from checks.errors import DamagedError


def as_json(content: Any) -> str:
  """Return the text of a file of JSON."""
  return json.dumps(content, indent=2, ensure_ascii=False) + '\n'


def write_json(path: str, content: Any) -> None:
  """Write a file of JSON, whole or not at all. Those of a run's folder that decide a result: RunFolder.write_json."""
  files.of(path).write(path, as_json(content))


def read_json(path: str) -> Any:
  """Return what write_json wrote. Raises DamagedError when the file is missing or holds something else."""
  try:
    return json.loads(files.of(path).read(path))
  except FileNotFoundError:
    raise DamagedError(f'{path} is missing') from None
  except ValueError as error:
    raise DamagedError(f'{path} is damaged ({error}); put it back from a copy') from None


def read_lines(path: str) -> list[dict[str, Any]]:
  """Return the records of a file of JSON lines, such as metrics.jsonl, without an unfinished last line.

  Raises:
    DamagedError: when the file is missing, or naming the first line that is no record.
  """
  records = []
  if not files.of(path).is_file(path):
    raise DamagedError(f'{path} is missing: the run has measured nothing yet, or has lost it')
  for number, line in enumerate(io.BytesIO(files.of(path).read(path)), 1):
    if line.endswith(b'\n'):
      try:
        record = json.loads(line.decode())
      except ValueError:
        record = None
      if not isinstance(record, dict) or not isinstance(record.get('step'), int):
        raise DamagedError(f'{path} is damaged: line {number} is no measurement; take that line out, or put the file '
                           'back from a copy')
      records.append(record)
  return records


def as_written(content: Any) -> Any:
  """Return what read_json returns after write_json: tuples become lists."""
  return json.loads(json.dumps(content))
