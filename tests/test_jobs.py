"""Large jobs go on where they were stopped; lines of a pipe are answered as they come."""

import itertools
import json
import os
import threading

import pytest

from checks.errors import ConfigError, DataError
from decoding import jobs
from options import decode_options

LINES = [f'line {number}' for number in range(23)]


def test_C6_a_killed_job_goes_on_and_loses_nothing(tmp_path):
  output, told, seen = str(tmp_path / 'out'), [], []

  def answer(lines, first, until=100):
    if first >= until:
      raise KeyboardInterrupt
    seen.append(first)
    return [f'{first + n} {line}' for n, line in enumerate(lines)]

  with pytest.raises(KeyboardInterrupt):
    jobs.in_parts(LINES, output, 5, lambda: {'beam': 4}, lambda lines, first: answer(lines, first, 10), told.append)
  assert seen == [0, 5] and not os.path.exists(output)
  with pytest.raises(ConfigError, match='another job: beam differ'):
    jobs.in_parts(LINES, output, 5, lambda: {'beam': 3}, answer, told.append)
  with pytest.raises(ConfigError, match='text'):
    jobs.in_parts(LINES[:-1] + ['x'], output, 5, lambda: {'beam': 4}, answer, told.append)
  counted = []
  found = jobs.in_parts(LINES, output, 5, lambda: {'beam': 4}, answer, told.append, counted.append)
  assert counted == [10]  # answered before
  assert seen == [0, 5, 10, 15, 20] and told == ['going on: 2 of 5 parts are done']
  assert found == [f'{n} line {n}' for n in range(23)]
  assert (tmp_path / 'out').read_text() == '\n'.join(found) + '\n'
  assert os.listdir(tmp_path) == ['out']


def test_a_job_keeps_its_parts_whatever_their_size_would_be_now(tmp_path):
  """Several processes make smaller parts; killed, their job goes on in one, and where --part_lines has changed."""
  output, seen = str(tmp_path / 'out'), []

  def answer(lines, first, until=100):
    if first >= until:
      raise KeyboardInterrupt
    seen.append((first, len(lines)))
    return lines

  with pytest.raises(KeyboardInterrupt):
    jobs.in_parts(LINES, output, 4, dict, lambda lines, first: answer(lines, first, 12), print)
  assert jobs.in_parts(LINES, output, 1000, dict, answer, print) == LINES
  assert seen == [(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 3)] and os.listdir(tmp_path) == ['out']
  (tmp_path / 'out.parts').mkdir()
  (tmp_path / 'out.parts' / 'job.json').write_text('{"lines": 23}')
  with pytest.raises(ConfigError, match='job.json is damaged'):
    jobs.in_parts(LINES, output, 4, dict, answer, print)


@pytest.mark.parametrize('part_lines', [2, 5, 100])
def test_translations_are_kept_to_the_character_in_any_number_of_parts(tmp_path, part_lines):
  written = ['a\r', '\ufeffb', '', 'c\u2028d', 'e\r\r']
  found = jobs.in_parts(LINES[:5], str(tmp_path / 'out'), part_lines, dict,
                        lambda lines, first: written[first:first + len(lines)], lambda text: None)
  assert found == written
  assert (tmp_path / 'out').read_bytes() == ''.join(f'{line}\n' for line in written).encode()


def test_a_small_job_has_no_parts(tmp_path):
  assert jobs.in_parts(LINES, str(tmp_path / 'out'), 23, dict, lambda lines, first: lines, print) == LINES
  assert os.listdir(tmp_path) == ['out']


def test_lines_are_read_as_they_come():
  out, into = os.pipe()
  arriving = jobs.arriving(out, 'a pipe')
  os.write(into, 'Grüße\nzw'.encode())
  assert next(arriving) == ['Grüße']
  os.write(into, b'ei\r\n\n')
  assert next(arriving) == ['zwei', '']
  os.write(into, b'last')
  os.close(into)
  assert list(arriving) == [['last']]
  os.close(out)


def test_a_line_that_arrives_in_many_pieces_is_put_together_once():
  out, into = os.pipe()
  arriving, long = jobs.arriving(out, 'a pipe', at_once=64), 'ab' * 30_000
  threading.Thread(target=lambda: (os.write(into, f'{long}\nx\n{long}'.encode()), os.close(into))).start()
  assert list(itertools.chain.from_iterable(arriving)) == [long, 'x', long]
  os.close(out)


def test_what_a_job_depends_on_is_the_same_in_any_order_of_its_options_and_for_any_name_of_a_file():
  of = lambda *words: jobs.depends_on(decode_options.parse(
      ['decode.py', '--workdir=a', '--output=o', '--reference=r', *words], ''), 'model')
  options = '--search.beam_size=2', '--search.alpha=1.0'
  known = of('--input=caf\udce9.en', *options)  # as Python reads a name of latin-1
  assert known == of('--input=caf\udce9.en', *options[::-1]) == of('--input=caf\udce9.en', *options, '--paper_bleu=wmt14')
  assert known != of('--input=caf\udce9.en', options[0]) and known != of('--input=other.en', *options)
  json.dumps(known, ensure_ascii=False).encode()


@pytest.mark.parametrize('end', ['\n', ''])
def test_a_line_that_is_not_utf8_is_named_by_its_number_in_all_that_arrived(end):
  out, into = os.pipe()
  arriving = jobs.arriving(out, 'a pipe', at_once=4)
  os.write(into, '\ufeffeins\nzwei\n\ufeffdrei\nbös'.encode('utf-8') + 'ö'.encode('latin-1') + end.encode())
  os.close(into)
  with pytest.raises(DataError, match='^a pipe, line 4: not valid UTF-8 .byte 0xf6'):
    read = []
    for lines in arriving:
      read += lines
  assert read == ['eins', 'zwei', '\ufeffdrei']  # a byte-order mark stands at the beginning alone
  os.close(out)


def test_a_damaged_part_is_told(tmp_path):
  with pytest.raises(DataError, match='part is damaged .* Delete it and give the same command again'):
    (tmp_path / 'part').write_bytes(b'a\n\xff\n')
    jobs._read_part(str(tmp_path / 'part'), 2)
