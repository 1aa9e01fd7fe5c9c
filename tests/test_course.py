"""The course's lessons: links, tests, functions, options and snippets that they name are there and do what they say."""

import ast
import contextlib
import glob
import importlib
import io
import os
import re
import runpy
import shlex

import pytest

from options import configurations

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COURSE = os.path.join(ROOT, 'docs', 'course')
PARTS = ['The idea', 'In the paper', 'The code', 'The test', 'Try it', 'What you see', 'Exercise']
NEEDS_A_RUN = 'runs/phrasebook'
MOST_BYTES = 80_000  # of a picture


def read(path):
  with open(path, encoding='utf-8') as file:
    return file.read()


PAGES = {os.path.basename(path): read(path) for path in sorted(glob.glob(os.path.join(COURSE, '*.md')))}
LESSONS = [name for name in PAGES if name[0].isdigit()]
BLOCK = re.compile(r'^```(\w+)\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def snippets():
  """Yield each Python snippet that needs no trained run, with the output that the lesson prints below it."""
  for name in LESSONS:
    blocks = [*BLOCK.finditer(PAGES[name])]
    for number, block in enumerate(blocks):
      if block[1] == 'python' and NEEDS_A_RUN not in block[2]:
        assert number + 1 < len(blocks) and blocks[number + 1][1] == 'text', f'{name}: a snippet without its output'
        yield pytest.param(block[2], blocks[number + 1][2], id=f'{name[:2]}-{number}')


def commands():
  """Yield (script, options) of each call of one of our scripts in the lessons' shell blocks."""
  for name in LESSONS:
    for block in BLOCK.finditer(PAGES[name]):
      for line in block[2].replace('\\\n', ' ').splitlines() if block[1] == 'sh' else ():
        for script, options in re.findall(r'python (\w+)\.py([^|]*)', line):
          yield pytest.param(script, shlex.split(options), id=f'{name[:2]}-{script}')


def defined(path):
  """Return the names of all functions and classes of a file."""
  kinds = (ast.FunctionDef, ast.ClassDef)
  return {node.name for node in ast.walk(ast.parse(read(os.path.join(ROOT, path)))) if isinstance(node, kinds)}


def test_there_are_ten_lessons_in_a_row():
  assert [int(name[:2]) for name in LESSONS] == [*range(1, 11)]
  for name, following in zip(LESSONS, LESSONS[1:]):
    assert f'({following})' in PAGES[name] and f'({name})' in PAGES[following]
    assert f'({name})' in PAGES['README.md']


@pytest.mark.parametrize('name', LESSONS)
def test_a_lesson_has_its_parts_in_order(name):
  assert re.findall(r'^## (.+)$', PAGES[name], re.MULTILINE) == PARTS
  exercise = PAGES[name].split('## Exercise')[1]
  assert exercise.count('<details><summary>Answer</summary>') == exercise.count('</details>') == 1
  picture_or_table = r'^!\[.+\]\(.+\)$|^\|(-+\|)+$'
  assert re.search(picture_or_table, PAGES[name].split('## What you see')[1], re.MULTILINE)


@pytest.mark.parametrize('name', PAGES)
def test_links_lead_to_files(name):
  links = [link for link in re.findall(r'\]\(([^)]+)\)', PAGES[name]) if '://' not in link]
  assert links
  for link in links:
    path, _, heading = link.partition('#')
    target = os.path.join(COURSE, path)
    assert os.path.exists(target), link
    if heading:
      anchors = [re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-')
                 for title in re.findall(r'^#+ (.+)$', read(target), re.MULTILINE)]
      assert heading in anchors, link


@pytest.mark.parametrize('name', LESSONS)
def test_tests_and_code_that_are_named_exist(name):
  tests = re.findall(r'(tests/\w+\.py)::(test_\w+)', PAGES[name])
  code = re.findall(r'\[`(\w+)` in ([\w/]+\.py)\]\(\.\./\.\./([\w/]+\.py)\)', PAGES[name])
  assert tests and code
  for path, test in tests:
    assert test in defined(path), f'{path}::{test}'
  for function, path, linked in code:
    assert path == linked and function in defined(path), f'{function} in {path}'


def test_code_that_is_quoted_is_the_codes():
  quotes = [line.strip() for name in LESSONS for line in
            re.findall(r'^ {4,6}(\S.+)$', BLOCK.sub('', PAGES[name]), re.MULTILINE)]
  rooms = [os.path.join(ROOT, room, '**', '*.py') for room in ('transformer', 'explorer')]
  files = ' '.join(read(path) for room in rooms for path in glob.glob(room, recursive=True))
  assert len(quotes) > 5
  for quote in quotes:
    assert quote.removesuffix(' …') in files, quote


@pytest.mark.parametrize('code, printed', [*snippets()])
def test_a_snippet_prints_what_the_lesson_says(code, printed, tmp_path, monkeypatch):
  monkeypatch.chdir(ROOT)
  path, output = tmp_path / 'snippet.py', io.StringIO()
  path.write_text(code, encoding='utf-8')
  with contextlib.redirect_stdout(output):
    runpy.run_path(str(path))
  assert output.getvalue() == printed


@pytest.mark.parametrize('script, options', [*commands()])
def test_options_of_commands_are_known(script, options):
  flags = importlib.import_module(f'options.{script}_options').FLAGS
  known = {name for flag in flags for name in (flag.name, flag.also)}
  tree = configurations.leaves(configurations.default_tree())
  known |= {f'config.{name}' for name in tree} | {name for name in tree if name.startswith('search.')}
  for option in options:
    assert option.startswith('--') and option[2:].partition('=')[0] in known, option


def test_pictures_are_small():
  pictures = [name for name in os.listdir(COURSE) if name.endswith(('.png', '.svg'))]
  assert pictures and all(os.path.getsize(os.path.join(COURSE, name)) < MOST_BYTES for name in pictures)
  assert all(f'({name})' in ''.join(PAGES.values()) for name in pictures)
