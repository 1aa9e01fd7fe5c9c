"""Overrides are checked, together, before anything heavy is imported; records are built; errors become exit codes."""

import dataclasses
import os
import shlex
import subprocess
import sys

import pytest

from checks.errors import ConfigError
from configs import ablation, default, multi30k, table3
from options import configurations, parsing, programs, sections, train_options

TOY = os.path.join(configurations.CONFIGS, 'toy.py')
ASKED = ('train.py', f'--config={TOY}', '--workdir=runs/x')


def parse(*arguments, start=ASKED):
  return train_options.read([*start, *arguments]).config


def mistakes(*arguments, start=ASKED):
  with pytest.raises(ConfigError) as caught:
    parse(*arguments, start=start)
  return str(caught.value)


@pytest.mark.parametrize('arguments, name, value', [
    (['--config.model.d_model=256'], 'model.d_model', 256),
    (['--config.model.d_model', '256'], 'model.d_model', 256),
    (['-config.model.d_model=256'], 'model.d_model', 256),
    (['--config.data.heldout', '-1'], 'data.heldout', -1),
    (['--config.model.dropout=5e-1'], 'model.dropout', 0.5),
    (['--config.data.directory=a=b'], 'data.directory', 'a=b'),
    (['--noconfig.model.tie_output'], 'model.tie_output', False),
    (['--config.model.attention_bias'], 'model.attention_bias', True),
    (['--config.model.attention_bias', '--config.seed=0'], 'model.attention_bias', True),
    (['--config.model.tie_output=false'], 'model.tie_output', False),
    (['--config.model.tie_output', 'false'], 'model.tie_output', False),
    (['--config.data.test_splits=()'], 'data.test_splits', ()),
    (['--config.data.test_splits=("a", "b")'], 'data.test_splits', ('a', 'b')),
    (['--config.seed=1', '--config.seed=2'], 'seed', 2),
    (['--init_from=runs/y'], 'init_from', 'runs/y'),
    (['--init_from', 'runs/y'], 'init_from', 'runs/y'),
])
def test_override_reaches_the_config(arguments, name, value):
  before = configurations.leaves(parse())
  after = configurations.leaves(parse(*arguments))
  assert after[name] == value and type(after[name]) is type(value)
  assert before[name] != value
  del before[name], after[name]
  assert before == after


def test_override_may_stand_before_the_config():
  assert parse(start=('train.py', '--config.seed=7', '--workdir', 'x', '--config', TOY))['seed'] == 7


def test_what_leaves_the_room_is_plain():
  config = parse('--config.data.mix=("a",)')
  assert type(config) is dict and {type(config[name]) for name in ('model', 'data', 'train', 'search')} == {dict}
  assert {type(value) for value in configurations.leaves(config).values()} == {int, float, str, bool, tuple, type(None)}
  assert config['data']['mix'] == ('a',)
  other = configurations.with_options(config, {'data.mix': (), 'seed': 5})
  assert (config['data']['mix'], config['seed'], other['data']['mix'], other['seed']) == (('a',), 0, (), 5)


def test_arguments_are_kept_each_in_one_word():
  given = ['--config', TOY, '--workdir=runs/x', '--config.train.num_steps', '5', '--config.model.attention_bias',
           '-config.train.num_minutes=None']
  options = train_options.read(['train.py', *given])
  assert options.arguments == (f'--config={TOY}', '--workdir=runs/x', '--config.train.num_steps=5',
                               '--config.model.attention_bias', '-config.train.num_minutes=None')
  assert options.arguments_without(['config.train.num_steps', 'config.train.num_minutes', 'workdir']) == [
      f'--config={TOY}', '--config.model.attention_bias']
  assert options.given == ('train.num_steps', 'model.attention_bias', 'train.num_minutes')


@pytest.mark.parametrize('argument, expected', [
    ('--config.model.width=256', 'is called --config.model.d_model now; write --config.model.d_model=256'),
    ('--config.data.mixed=a', """is called --config.data.mix now; write --config.data.mix="('a',)\""""),
    ('--config.data.mixed=None', 'is called --config.data.mix now; write --config.data.mix="()"')])
def test_a_renamed_option_names_its_successor(argument, expected, monkeypatch, tmp_path):
  monkeypatch.setattr(default, 'RENAMED', {'model.width': 'model.d_model', 'data.mixed': 'data.mix',
                                           'search.width': 'search.beam_size'})
  assert mistakes(argument) == f'{argument} {expected}'
  successor, value = shlex.split(expected.partition('write --config.')[2])[0].split('=')
  assert configurations.leaves(parse(f'--config.{successor}={value}'))[successor] in (256, ('a',), ())
  path = tmp_path / 'mine.py'
  path.write_text(CONFIG.format('c.model.width = 4'))
  message = mistakes(start=('train.py', f'--config={path}', '--workdir=x'))
  assert 'config.model.width is called config.model.d_model now; write config.model.d_model=4' in message
  with pytest.raises(ConfigError, match='is called --search.beam_size now; write --search.beam_size=2'):
    parsing.parse(['decode.py', '--search.width=2'], (), 'search')


@pytest.mark.parametrize('argument, expected', [
    ('--config.model.d_modle=3', '--config.model.d_model?'),
    ('--config.d_model=3', '--config.model.d_model?'),
    ('--config.modle.d_model=3', '--config.model.d_model?'),
    ('--config.batch_tokens=3', '--config.search.batch_tokens or --config.train.batch_tokens?'),
    ('--workdr=x', '--workdir?'),
    ('--d_ff=3', '--config.model.d_ff?'),
    ('--config.model=3', 'is a section; its options are model.activation'),
    ('--config.zzzz=1', '--helpfull lists all'),
    ('--config.model.d_model=2.5', "expected a whole number, found '2.5'"),
    ('--config.model.d_model', 'expected a whole number, found no value'),
    ('--config.model.d_model=', "expected a whole number, found ''"),
    ('--config.model.dropout=high', "expected a number, found 'high'"),
    ('--config.model.tie_output=perhaps', "expected true or false, found 'perhaps'"),
    ('--noconfig.model.d_model', 'expected a whole number, not a switch'),
    ('--config.train.num_steps=many', "expected a whole number, found 'many'"),
    ('--config.train.num_minutes=soon', "expected a number, found 'soon'"),
    ('--config.train.num_epochs=inf', "expected a number, found 'inf'"),
    ('--config.train.num_minutes=nan', "expected a number, found 'nan'"),
    ('stray', "'stray' stands alone"),
    ('--workdir', '--workdir has no value'),
])
def test_mistake_is_named_with_a_remedy(argument, expected):
  message = mistakes(argument)
  assert argument in message and expected in message and 'mistakes' not in message


def test_all_mistakes_are_reported_together():
  message = mistakes('--config.model.d_modle=3', '--config.seed=x', 'stray', '--bogus=1', start=('train.py',))
  for part in ('6 mistakes', 'd_modle', 'config.seed', 'stray', '--bogus=1', '--config is missing', 'toy.py',
               '--workdir is missing'):
    assert part in message


def test_a_path_behind_an_option_may_begin_at_home(monkeypatch):
  monkeypatch.setenv('HOME', '/home/ann')
  found = configurations.leaves(parse('--config.data.cache_dir=~/cache', "--config.data.mix=('~/more*2', '~other')",
                                      '--init_from=~/run'))
  assert (found['data.cache_dir'], found['init_from']) == ('/home/ann/cache', '/home/ann/run')
  assert found['data.mix'] == ('/home/ann/more*2', '~other')


def test_length_on_the_command_line_replaces_the_files():
  lengths = lambda *given: [configurations.leaves(parse(*given))[name] for name in configurations.LENGTHS]
  assert lengths() == [None, 30, None]
  assert lengths('--config.train.num_minutes=2') == [None, None, 2.0]
  assert lengths('--config.train.num_steps=5') == [5, None, None]


@pytest.mark.parametrize('arguments, expected', [
    (['--config.train.num_steps=5', '--config.train.num_minutes=2'], 'train.num_steps=5 and train.num_minutes=2.0'),
    (['--config.train.num_epochs=None'], 'none'),
    (['--config.train.num_steps=0'], 'expected a positive number'),
])
def test_exactly_one_length(arguments, expected):
  message = mistakes(*arguments)
  assert expected in message and 'num_epochs=30' not in message


CONFIG = 'from configs import default\ndef get_config():\n  c = default.get_config()\n  {}\n  return c\n'


@pytest.mark.parametrize('text, expected', [
    (CONFIG.format('c.train.num_minutes = 4'), 'configuration sets train.num_steps=100000 and train.num_minutes=4.0'),
    (CONFIG.format('c.model.d_modle = 4'), 'did you mean config.model.d_model?'),
    (CONFIG.format('del c.model.d_ff'), 'config.model.d_ff is missing'),
    (CONFIG.format('c.model.d_ff = "wide"'), 'fails in line 4: TypeError'),
    (CONFIG.format('1 / 0'), 'fails in line 4: ZeroDivisionError'),
    (CONFIG.format('return 3'), 'returned a int; expected a ConfigDict'),
    ('def get_config(: pass', 'SyntaxError'),
    ('get = 3', 'get_config'),
])
def test_broken_config_file(tmp_path, text, expected):
  path = tmp_path / 'mine.py'
  path.write_text(text)
  message = mistakes(start=('train.py', f'--config={path}', '--workdir=x'))
  assert expected in message


@pytest.mark.parametrize('spec, expected', [
    ('none.py', 'there is no file none.py'), (f'{TOY}:huge', "no variant 'huge'"), ('.', 'there is no file')])
def test_config_that_cannot_be_read(spec, expected):
  assert expected in mistakes(start=('train.py', f'--config={spec}', '--workdir=x'))


@dataclasses.dataclass(frozen=True)
class Record:
  size: int
  seed: int
  name: str = 'unused default'

  def __post_init__(self):
    if self.size < 0:
      raise ValueError(f'size is {self.size}; expected 0 or more')


def test_build_takes_fields_by_name_and_defaults_nothing():
  record = sections.build(Record, {'size': 3, 'name': 'a', 'other': 1, 'seed': 1}, seed=5)
  assert record == Record(3, 5, 'a')
  with pytest.raises(ConfigError, match='record: the configuration lacks name'):
    sections.build(Record, {'size': 3}, seed=5)


def test_gathered_errors_are_raised_together_with_their_sections():
  config = {'model': {'size': -1, 'name': 'a'}, 'data': {'size': -2, 'name': 'a'}}
  with pytest.raises(ConfigError) as caught:
    with sections.gather_errors(config) as build:
      model = build(Record, config['model'], seed=1)
      build(Record, config['data'], seed=1)
      model.size  # what failed is None; the error above is the one to tell
  assert str(caught.value).split('\n') == [
      '2 mistakes', '  config.model: size is -1; expected 0 or more', '  config.data: size is -2; expected 0 or more']


def test_gathering_nothing_raises_nothing_and_hides_nothing():
  with sections.gather_errors() as build:
    assert build(Record, {'size': 1, 'name': 'a'}, seed=1).size == 1
  with pytest.raises(ZeroDivisionError):
    with sections.gather_errors():
      1 / 0


class Refusal(Exception):
  exit_code = 3


def failing(error):
  raise error


@pytest.mark.parametrize('main, code, told', [
    (lambda: None, 0, ''), (lambda: 143, 143, ''), (lambda: failing(Refusal('no text')), 3, 'error: no text\n'),
    (lambda: failing(ConfigError('no')), 2, 'error: no\n'),
    (lambda: failing(KeyboardInterrupt), 130, 'Interrupted.\n')])
def test_exit_codes(main, code, told, capsys):
  with pytest.raises(SystemExit) as ended:
    programs.run(main)
  assert ended.value.code == code and capsys.readouterr().err == told


def test_unexpected_errors_keep_their_traceback():
  with pytest.raises(ZeroDivisionError):
    programs.run(lambda: 1 / 0)


def test_every_shipped_config_resolves():
  variants = {'wmt_de_en.py': ['base', 'big'], 'wmt_en_fr.py': ['base', 'big'], 'multi30k.py': multi30k.VARIANTS,
              'recurrent.py': ['bahdanau', 'sutskever', 'cho', 'luong_dot', 'luong_general'],
              'table3.py': table3.VARIANTS, 'ablation.py': ablation.VARIANTS}
  for path in configurations.shipped_configs():
    for variant in ['', *variants.get(os.path.basename(path), [])]:
      spec = f'{path}:{variant}' if variant else path
      configurations.choose_length(configurations.load_tree(spec), {})


SCRIPT = '''
import sys
from options import train_options
try:
  print(train_options.parse(sys.argv, 'Trains.').config['model']['d_model'])
finally:
  if '--help' not in sys.argv:
    print('heavy:', *{'jax', 'numpy', 'tensorflow_datasets', 'transformer', 'corpora'} & set(sys.modules))
'''


@pytest.mark.parametrize('arguments, code, out, err', [
    (['--help'], 0, '--config.model.d_model', ''), ([*ASKED[1:], '--config.model.d_model=64'], 0, '64\nheavy:\n', ''),
    ([*ASKED[1:], '--config.model.d_modle=64'], 2, 'heavy:\n', 'did you mean')])
def test_answers_without_heavy_imports(arguments, code, out, err):
  done = subprocess.run([sys.executable, '-c', SCRIPT, *arguments], capture_output=True, text=True, timeout=60,
                        cwd=configurations.ROOT)
  assert done.returncode == code and out in done.stdout and err in done.stderr and 'Traceback' not in done.stderr
