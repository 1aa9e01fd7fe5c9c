"""What a program does between devices, in memory and in time, read from the text of XLA's optimised module."""

import collections
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_KINDS = ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute', 'ragged-all-to-all',
          'collective-broadcast')
_BYTES = {'pred': 1, 's8': 1, 'u8': 1, 's16': 2, 'u16': 2, 'bf16': 2, 'f16': 2, 's32': 4, 'u32': 4, 'f32': 4, 's64': 8,
          'u64': 8, 'f64': 8, 'c64': 8, 'c128': 16}
_COLLECTIVE = re.compile(rf'({"|".join(_KINDS)})(-start)?\(')
_RESULT_BEHIND_INPUT = ('all-gather', 'collective-permute')  # in the shape of an instruction that starts one
_COMPUTATION = re.compile(r'^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$')
_INSTRUCTION = re.compile(r'^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$')
_CALLS = re.compile(r'\b(?:body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)')
_BRANCHES = re.compile(r'\bbranch_computations=\{([^}]*)\}')
_ARRAY = re.compile(rf'\b({"|".join(_BYTES)})\[([\d,]*)\]')


class Array(NamedTuple):
  """The type and shape of an array on one device."""

  dtype: str  # as XLA writes it: 'bf16'
  shape: tuple[int, ...]

  @property
  def size(self) -> int:
    """The array's bytes."""
    return _BYTES[self.dtype] * math.prod(self.shape)


class Collective(NamedTuple):
  """An instruction in which devices exchange arrays."""

  kind: str  # as XLA names it: 'all-reduce'
  results: tuple[Array, ...]  # on one device
  runs: int  # how often a step runs it


class Traffic(NamedTuple):
  """The collectives of one kind that carry arrays of one type."""

  count: int  # runs in a step
  size: int  # bytes of their results on one device, in a step


class Module:
  """An optimised module, parsed."""

  def __init__(self, text: str):
    """Parse what XLA writes out for people, or what a compiled program returns as text."""
    self._computations: dict[str, list[str]] = {}
    entry, instructions = '', []
    for line in text.splitlines():
      if found := _COMPUTATION.match(line):
        instructions = self._computations.setdefault(found[2], [])
        entry = found[2] if found[1] else entry
      elif _INSTRUCTION.match(line):
        instructions.append(line)
    self._runs = self._count(entry)

  def _count(self, entry: str) -> dict[str, int]:
    """Return how often each computation runs in one run of the entry; loops whose turns XLA does not know count once."""
    calls = {name: [(callee, turns) for line in lines for callee, turns in self._callees(line)]
             for name, lines in self._computations.items()}
    pending = collections.Counter(callee for edges in calls.values() for callee, _ in edges)
    runs, ready = collections.Counter({entry: 1}), [name for name in calls if not pending[name]]
    while ready:  # callers first
      name = ready.pop()
      for callee, turns in calls[name]:
        runs[callee] += turns * runs[name]
        pending[callee] -= 1
        if not pending[callee] and callee in calls:
          ready.append(callee)
    return runs

  def _callees(self, line: str) -> Iterator[tuple[str, int]]:
    """Yield the computations that an instruction calls, and how often each runs in one run of it."""
    called = _CALLS.findall(line)
    for branches in _BRANCHES.findall(line):
      called += re.findall(r'[\w.\-]+', branches)
    turns = self._turns(line)
    yield from ((name, turns) for name in called)

  def _turns(self, line: str) -> int:
    """Return how often an instruction runs what it calls: once, but for loops.

    The TPU's compiler does not write down how many turns a loop takes. They are the number to which its condition, as of
    every jax.lax.scan, compares a counter that begins at 0.
    """
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', line):
      return int(known[1])
    condition = re.search(r' while\(.*\bcondition=%?([\w.\-]+)', line)
    lines = '\n'.join(self._computations.get(condition[1], ())) if condition else ''
    bounds = re.findall(r' = s32\[\]\S* constant\((\d+)\)', lines)
    return int(bounds[0]) if len(bounds) == 1 and re.search(r'ROOT .* compare\(.*direction=LT', lines) else 1

  def _instructions(self) -> Iterator[tuple[str, int]]:
    """Yield each instruction that runs, with the number of its runs."""
    for name, lines in self._computations.items():
      if self._runs[name]:
        yield from ((line, self._runs[name]) for line in lines)

  def collectives(self) -> list[Collective]:
    """Return the collectives. One that XLA spreads over several instructions of one channel is listed once."""
    found = {}
    for line, runs in self._instructions():
      name, rest = _INSTRUCTION.match(line).groups()
      shape, rest = _shape(rest)
      found_kind = _COLLECTIVE.match(rest)
      if not found_kind:
        continue
      kind, start = found_kind.groups()
      if start and kind in _RESULT_BEHIND_INPUT:
        shape = _parts(shape)[1]
      channel = re.search(r'\bchannel_id=(\d+)', rest)
      results = tuple(Array(dtype, tuple(int(size) for size in sizes.split(',') if size))
                      for dtype, sizes in _ARRAY.findall(shape))
      found.setdefault((kind, channel[1] if channel else name), Collective(kind, results, runs))
    return list(found.values())

  def cycles(self) -> int | None:
    """Return the sum of the compiler's estimated cycles; None where it states none, as before machine code is made."""
    found = [runs * int(cycles[1]) for line, runs in self._instructions()
             if (cycles := re.search(r'"estimated_cycles":"(\d+)"', line))]
    return sum(found) if found else None


def traffic(collectives: Iterable[Collective]) -> dict[tuple[str, str], Traffic]:
  """Return the traffic of a step between devices, by kind of collective and type; the largest first."""
  found = collections.defaultdict(lambda: Traffic(0, 0))
  for kind, results, runs in collectives:
    for dtype in {array.dtype for array in results}:
      size = sum(array.size for array in results if array.dtype == dtype)
      before = found[kind, dtype]
      found[kind, dtype] = Traffic(before.count + runs, before.size + runs * size)
  return dict(sorted(found.items(), key=lambda item: (-item[1].size, item[0])))


def memory(report: str) -> int:
  """Return the bytes of a device that a program needs, inputs included, from the text of XLA's memory usage report."""
  return int(re.search(r'\(color=0\)\s*Total bytes: (\d+)', report)[1])


def _shape(text: str) -> tuple[str, str]:
  """Split 'shape op(operands), …' into the shape and the rest."""
  depth = 0
  for place, letter in enumerate(text):
    depth += (letter in '([{') - (letter in ')]}')
    if letter == ' ' and not depth:
      return text[:place], text[place + 1:]
  return text, ''


def _parts(shape: str) -> list[str]:
  """Return the elements of a tuple's shape."""
  parts, depth = [''], 0
  for letter in shape[1:-1]:
    depth += (letter in '([{') - (letter in ')]}')
    if letter == ',' and not depth:
      parts.append('')
    else:
      parts[-1] += letter
  return parts
