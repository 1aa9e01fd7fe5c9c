"""The house: rooms import from lower floors only, nothing in a circle, and a configuration ends at its door."""

import ast
import pathlib
import re
import tomllib

from tasks import TASKS

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
    ('explorer', 'sweeps', 'recipes', 'exchange'),
    ('train', 'decode', 'convert', 'visualize', 'analyze', 'compare'),
    ('sweep', 'recipe'),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# One room of two doors: the story stands at the top level, its chapters in a folder.
SAME_ROOM = {'batching': 'input_pipeline'}
MODULES = {'.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__'): path
           for room in FLOOR for path in ([ROOT / f'{room}.py'] if (ROOT / f'{room}.py').is_file()
                                          else sorted((ROOT / room).rglob('*.py')))}


def imports(path, types=True):
  """Modules of this project that a file imports, also within functions, and for the type checker's sake where `types`."""
  found, nodes = set(), [ast.parse(path.read_text(encoding='utf-8'))]
  while nodes:
    node = nodes.pop()
    if types or not (isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'):
      nodes += ast.iter_child_nodes(node)
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
  edges = {module: imports(path, types=False) & MODULES.keys() - {module} for module, path in MODULES.items()}
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
  knowing = {module for module, path in MODULES.items() if 'ConfigDict' in path.read_text(encoding='utf-8')
             or re.search(r'^\s*(import|from) ml_collections', path.read_text(encoding='utf-8'), re.M)}
  assert {module.partition('.')[0] for module in knowing} <= {'configs', 'options'}, knowing


def test_files_are_of_a_length_that_one_reads():
  longer = {'corpora/phrasebook/lexicon.py', 'corpora/phrasebook/grammar.py'}
  pages = [path for ending in ('js', 'css', 'html') for path in ROOT.glob(f'explorer/**/*.{ending}')]
  counts = {str(path.relative_to(ROOT)): len(path.read_text(encoding='utf-8').splitlines())
            for path in [*MODULES.values(), *pages]}
  assert not {name: count for name, count in counts.items() if count > 400 and name not in longer}
  assert counts['train.py'] <= 250 and counts['decode.py'] <= 150


def test_an_installed_package_has_all_that_its_rooms_read():
  listed = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))['tool']['setuptools']['package-data']
  rooms = {module.partition('.')[0] for module in MODULES}
  there = {path for room in rooms for path in (ROOT / room).rglob('*.*') if path.suffix not in ('.py', '.pyc')}
  assert there == {path for room, patterns in listed.items() for pattern in patterns for path in (ROOT / room).glob(pattern)}


def test_the_loop_is_one_function_that_one_reads():
  tree = ast.parse((ROOT / 'train.py').read_text(encoding='utf-8'))
  train, = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == 'train')
  assert train.end_lineno - train.lineno + 1 <= 60


def test_tasks_are_known_by_name_in_their_own_room_alone():
  classes = {task.__module__ for task in TASKS.values()}
  wrong = [f'{module} imports {name}' for module, path in MODULES.items() for name in imports(path) & classes
           if module != 'tasks']
  names = {task.name for task in TASKS.values()}
  for module, path in MODULES.items():
    compared = [one for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))) if isinstance(node, ast.Compare)
                for one in (*node.comparators, node.left) if isinstance(one, ast.Constant) and one.value in names]
    wrong += [f'{module}:{one.lineno} compares with {one.value!r}' for one in compared]
  assert not wrong, '\n'.join(wrong)
