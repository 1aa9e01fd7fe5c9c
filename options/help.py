"""--help and --helpfull: what a script does, its flags, and the options that it overrides.

An option is described by the comment behind it in configs/default.py and by the registry of its choices, and nowhere
else.
"""

import ast
import importlib
import io
import os
import pathlib
import re
import textwrap
import tokenize
from collections.abc import Mapping, Sequence

from checks import choices
from options.configurations import CONFIGS, LENGTHS, ROOT, default_tree, leaves, shipped_configs
from options.flags import Flag

# What --help shows of the options; --helpfull shows every one.
MOST_USED = ('seed', 'model.architecture', 'model.d_model', 'model.num_heads', 'model.num_layers', 'model.d_ff',
             'model.norm', 'model.dropout', 'data.kind', 'data.directory', 'data.tsv', 'data.text',
             'data.source_language', 'data.target_language', 'vocabulary.size', 'optimizer.learning_rate_scale',
             'optimizer.warmup_steps', *LENGTHS, 'train.batch_tokens', 'train.checkpoint_every', 'train.eval_every',
             'train.log_every', 'search.beam_size', 'search.length_penalty', 'search.alpha', 'search.strategy')
# The packages whose modules register choices, and the pattern by which such a module is recognised.
ROOMS = ('transformer', 'corpora', 'batching')
_ENTERS = re.compile(r'\bRegistry\(|\b[A-Z_]+\.(register|add)\(')
_LEFT, _RIGHT = 42, 76  # columns of a name, and of its description


def help_text(doc: str, script_flags: Sequence[Flag], tree_name: str = '', everything: bool = False) -> str:
  """Return the text of --help: what a script does, its flags, and the options that may be overridden.

  Args:
    doc: the script's docstring, which says what it does.
    script_flags, tree_name: see parsing.parse().
    everything: whether to show every option of a configuration. Those of a section are few, and always shown.
  """
  comments = option_comments()
  lines = [doc.strip()]
  for task in dict.fromkeys(flag.only_for for flag in script_flags):
    lines += ['', f'Flags for {task} alone:' if task else 'Flags:']
    for flag in script_flags:
      if flag.only_for == task:
        name = flag.label if flag.positional or flag.kind is bool else f'{flag.label}=…'
        option = flag.stands_for.removeprefix('config.')
        lines += _entry(name, f'short for --{flag.stands_for}: {comments[option]}' if option else flag.described())
  if not tree_name:
    return '\n'.join(lines)
  options, registries = leaves(default_tree()), registries_by_option()
  inside = '' if tree_name == 'config' else f'{tree_name}.'
  shown = [name for name in comments if name.startswith(inside) and (everything or inside or name in MOST_USED)]
  lines += ['', ('Every option' if everything or inside else 'The options most often changed')
            + ', with the default of configs/default.py:']
  for before, name in zip([None, *shown], shown):
    section = name.rpartition('.')[0]
    if before is not None and section != before.rpartition('.')[0]:
      lines.append('')
    value = '…' if options[name] is None else options[name]
    described = f'{comments[name]}: {registries[name].describe()}' if name in registries else comments[name]
    lines += _entry(f'--{tree_name}.{name.removeprefix(inside)}={value}', described)
  if tree_name == 'config':
    lines += ['', *textwrap.wrap('Shipped configurations: ' + ', '.join(shipped_configs()), _LEFT + _RIGHT,
                                 break_long_words=False, break_on_hyphens=False, subsequent_indent='  ')]
    if not everything:
      lines.append('--helpfull lists every option.')
  return '\n'.join(lines)


def registries_by_option() -> Mapping[str, choices.Registry]:
  """Return the registry of each option that has one, by its dotted name.

  Modules register their choices when they are imported, so this imports all that do. That takes seconds, so only
  --help calls it.
  """
  for path in sorted(path for room in ROOMS for path in pathlib.Path(ROOT, room).rglob('*.py')):
    if _ENTERS.search(path.read_text(encoding='utf-8')):
      importlib.import_module('.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__'))
  return choices.REGISTRIES


def option_comments(path: str = os.path.join(CONFIGS, 'default.py')) -> dict[str, str]:
  """Return the comment behind each option in configs/default.py: its one description.

  It reads assignments to attributes of `config`, and of short names such as `model` in `config.model = model = …`.
  """
  with open(path, encoding='utf-8') as file:
    source = file.read()
  tokens = tokenize.generate_tokens(io.StringIO(source).readline)
  behind = {token.start[0]: token.string.lstrip('# ') for token in tokens if token.type == tokenize.COMMENT}
  prefixes, comments = {'config': ''}, {}
  for node in ast.walk(ast.parse(source)):
    if not isinstance(node, ast.Assign):
      continue
    names = [_dotted(target, prefixes) for target in node.targets]
    for target, name in zip(node.targets, names[:1] * len(names)):
      if isinstance(target, ast.Name) and name:
        prefixes[target.id] = f'{name}.'
    if names[0] and node.end_lineno in behind:
      comments[names[0]] = behind[node.end_lineno]
  return comments


def _entry(name: str, text: str) -> list[str]:
  left = f'  {name}'
  wrapped = textwrap.wrap(text, _RIGHT, break_long_words=False, break_on_hyphens=False) or ['']
  first = [f'{left:<{_LEFT}}  {wrapped[0]}'] if len(left) <= _LEFT else [left, f'{"":<{_LEFT}}  {wrapped[0]}']
  return first + [f'{"":<{_LEFT}}  {line}' for line in wrapped[1:]]


def _dotted(node: ast.expr, prefixes: Mapping[str, str]) -> str:
  """Return 'model.d_model' for the expression model.d_model; '' when it starts from no known name."""
  if isinstance(node, ast.Attribute):
    if isinstance(node.value, ast.Name):
      return prefixes[node.value.id] + node.attr if node.value.id in prefixes else ''
    outer = _dotted(node.value, prefixes)
    return f'{outer}.{node.attr}' if outer else ''
  return ''
