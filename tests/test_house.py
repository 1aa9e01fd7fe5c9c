"""The house: rooms import from lower floors only, nothing in a circle, and a configuration ends at its door."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# CONTRIBUTING.md tells what lives where. A room may import from lower floors and from within itself.
FLOORS = (
    ('checks',),
    ('transformer', 'corpora', 'configs'),
    ('input_pipeline', 'batching'),
    ('options',),
    ('training',),
    ('decoding',),
    ('tasks',),
    ('explorer', 'sweeps'),
    ('train', 'decode', 'visualize', 'analyze', 'compare'),
    ('sweep',),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# One room of two doors: the story stands at the top level, its chapters in a folder.
SAME_ROOM = {'batching': 'input_pipeline'}
MODULES = {'.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__'): path
           for room in FLOOR for path in ([ROOT / f'{room}.py'] if (ROOT / f'{room}.py').is_file()
                                          else sorted((ROOT / room).rglob('*.py')))}


def imports(path, whole=True):
  """Modules of this project that a file imports, those within functions included where `whole`."""
  tree = ast.parse(path.read_text(encoding='utf-8'))
  found = set()
  for node in ast.walk(tree) if whole else tree.body:
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert not node.level, f'{path}: relative import'
      found |= {f'{node.module}.{alias.name}' if f'{node.module}.{alias.name}' in MODULES else node.module
                for alias in node.names}
  return {name for name in found if name.partition('.')[0] in FLOOR}


def test_every_room_has_a_floor():
  scripts = {path.stem for path in ROOT.glob('*.py')}
  folders = {path.parent.name for path in ROOT.glob('*/__init__.py')} - {'tests', 'benchmarks'}
  assert scripts | folders == set(FLOOR)


def test_rooms_import_from_lower_floors_only():
  room = lambda module: SAME_ROOM.get(module.partition('.')[0], module.partition('.')[0])
  wrong = [f'{module} imports {name}' for module, path in MODULES.items() for name in imports(path)
           if room(name) != room(module) and FLOOR[name.partition('.')[0]] >= FLOOR[module.partition('.')[0]]]
  assert not wrong, '\n'.join(wrong)


def test_no_imports_in_a_circle():
  edges = {module: imports(path) & MODULES.keys() - {module} for module, path in MODULES.items()}
  done, path = set(), []

  def visit(module):
    assert module not in path, ' → '.join([*path[path.index(module):], module])
    if module not in done:
      path.append(module)
      for name in sorted(edges[module]):
        visit(name)
      path.pop()
      done.add(module)

  for module in edges:
    visit(module)


def test_the_configuration_ends_at_the_door():
  knowing = {module for module, path in MODULES.items() if 'ml_collections' in path.read_text(encoding='utf-8')
             or 'ConfigDict' in path.read_text(encoding='utf-8')}
  assert {module.partition('.')[0] for module in knowing} <= {'configs', 'options'}, knowing


@pytest.mark.parametrize('folder', ['.'])
def test_files_are_of_a_length_that_one_reads(folder):
  longer = {'corpora/phrasebook/lexicon.py', 'corpora/phrasebook/grammar.py'}
  counts = {str(path.relative_to(ROOT)): len(path.read_text(encoding='utf-8').splitlines())
            for path in [*MODULES.values(), *ROOT.glob('explorer/**/*.js'), *ROOT.glob('explorer/**/*.css')]}
  assert not {name: count for name, count in counts.items() if count > 400 and name not in longer}


def test_no_module_behind_the_tasks_knows_one_by_name():
  names = ("'translation'", "'language_modelling'", "'fine_tuning'", 'Translation(Task', 'TASKS[\'')
  knowing = [f'{module}: {name}' for module, path in MODULES.items() for name in names
             if name in path.read_text(encoding='utf-8') and not module.startswith('tasks')]
  assert not [found for found in knowing if not found.startswith('options.decode_options')], knowing
