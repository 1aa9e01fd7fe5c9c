"""Overrides are checked, together, before anything heavy is imported; errors become exit codes; help is true."""

import dataclasses
import os
import subprocess
import sys

import pytest

from checks.errors import ConfigError
from configs import ablation, table3
from options import command_line

TOY = os.path.join(command_line.CONFIGS, 'toy.py')
ASKED = ('train.py', f'--config={TOY}', '--workdir=runs/x')


def parse(*arguments, start=ASKED):
  parsed = command_line.parse([*start, *arguments], command_line.TRAIN_FLAGS, 'config')
  return command_line.choose_length(parsed.trees['config'], parsed.given['config'])


def decode(*arguments):
  return command_line.parse_decode(['decode.py', '--workdir=runs/x', *arguments], 'Decodes.')


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
  before = command_line.leaves(parse())
  after = command_line.leaves(parse(*arguments))
  assert after[name] == value and type(after[name]) is type(value)
  assert before[name] != value
  del before[name], after[name]
  assert before == after


def test_override_may_stand_before_the_config():
  assert parse(start=('train.py', '--config.seed=7', '--workdir', 'x', '--config', TOY)).seed == 7


def test_resolved_config_is_locked():
  with pytest.raises(AttributeError):
    parse().model.d_modle = 3


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


def test_length_on_the_command_line_replaces_the_files():
  assert parse().train.num_epochs == 30
  chosen = parse('--config.train.num_minutes=2').train
  assert (chosen.num_steps, chosen.num_epochs, chosen.num_minutes) == (None, None, 2.0)
  chosen = parse('--config.train.num_steps=5').train
  assert (chosen.num_steps, chosen.num_epochs, chosen.num_minutes) == (5, None, None)


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


def test_decode_options_hold_only_the_given_search_options():
  options = decode('--input=in.txt', '--search.beam_size=5', '--search.alpha=1')
  assert options.search == {'beam_size': 5, 'alpha': 1.0}
  assert (options.input, options.output, options.reference, options.checkpoint) == ('in.txt', '-', None, 'final')


def test_decode_takes_a_single_hyphen_for_standard_input():
  assert decode('--input', '-').input == '-'


def test_decode_tells_all_mistakes_together(capsys):
  with pytest.raises(SystemExit) as ended:
    decode('--format=xml', '--n_best=0', '--columns=prefix', '--mbr=many', '--paper_bleu=wmt14', '--attention',
           '--target=x', '--reference=y')
  told = capsys.readouterr().err
  assert ended.value.code == 2
  for words in ('--format=xml: expected text or jsonl or pharaoh', '--n_best=0: expected a positive', '--mbr=many',
                '--columns=prefix: expected source', '--attention needs --format=jsonl', '--target scores given'):
    assert words in told
  with pytest.raises(SystemExit):
    decode('--paper_bleu=wmt14')
  with pytest.raises(SystemExit):
    decode('--long_lines=split', '--format=jsonl')
  assert '--long_lines=split with --target or another --format' in capsys.readouterr().err
  assert decode('--n_best=2', '--format=jsonl').for_translations() == ['--format=jsonl', '--n_best=2']


def test_decode_knows_every_choice_that_there_is():
  from decoding import alignments, minimum_bayes_risk, output_formats, scores
  for name, known in (('format', output_formats.FORMATS), ('alignment', alignments.METHODS),
                      ('utility', minimum_bayes_risk.UTILITIES), ('paper_bleu', scores.PAPERS)):
    assert set(command_line._DECODE_VALUES[name][0].split('|')) == set(known)
  assert ('source', *command_line._DECODE_VALUES['columns'][0].split('(')[2].split(')')[0].split('|')
          ) == output_formats.COLUMNS


def test_decode_names_the_nearest_search_option(capsys):
  with pytest.raises(SystemExit) as ended:
    decode('--beam_size=5')
  assert ended.value.code == 2
  assert '--search.beam_size?' in capsys.readouterr().err


@dataclasses.dataclass(frozen=True)
class Record:
  size: int
  seed: int
  name: str = 'unused default'

  def __post_init__(self):
    if self.size < 0:
      raise ValueError(f'size is {self.size}; expected 0 or more')


def test_build_takes_fields_by_name_and_defaults_nothing():
  record = command_line.build(Record, {'size': 3, 'name': 'a', 'other': 1, 'seed': 1}, seed=5)
  assert record == Record(3, 5, 'a')
  with pytest.raises(ConfigError, match='record: the configuration lacks name'):
    command_line.build(Record, {'size': 3}, seed=5)


def test_gathered_errors_are_raised_together_with_their_sections():
  config = {'model': {'size': -1, 'name': 'a'}, 'data': {'size': -2, 'name': 'a'}}
  with pytest.raises(ConfigError) as caught:
    with command_line.gather_errors(config) as build:
      model = build(Record, config['model'], seed=1)
      build(Record, config['data'], seed=1)
      model.size  # what failed is None; the error above is the one to tell
  assert str(caught.value).split('\n') == [
      '2 mistakes', '  config.model: size is -1; expected 0 or more', '  config.data: size is -2; expected 0 or more']


def test_gathering_nothing_raises_nothing_and_hides_nothing():
  with command_line.gather_errors() as build:
    assert build(Record, {'size': 1, 'name': 'a'}, seed=1).size == 1
  with pytest.raises(ZeroDivisionError):
    with command_line.gather_errors():
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
    command_line.run(main)
  assert ended.value.code == code and capsys.readouterr().err == told


def test_unexpected_errors_keep_their_traceback():
  with pytest.raises(ZeroDivisionError):
    command_line.run(lambda: 1 / 0)


def test_every_option_has_its_comment():
  assert set(command_line.option_comments()) == set(command_line.leaves(command_line.default_config()))
  assert all(command_line.option_comments().values())


def test_help_names_what_scripts_rely_on():
  text = command_line.help_text('Trains.', command_line.TRAIN_FLAGS, 'config')
  for name in ('model.d_model=512', 'model.norm=post', 'train.num_minutes=…', 'train.batch_tokens=25000',
               'data.tsv=…', 'seed=0'):
    assert f'--config.{name}' in text
  assert 'width of embeddings' in text and '--workdir' in text and 'configs' in text
  assert '--config.optimizer.beta1' not in text
  assert '--config.optimizer.beta1=0.9' in command_line.help_text('Trains.', command_line.TRAIN_FLAGS, 'config', True)
  assert '--search.beam_size=4' in command_line.help_text('Decodes.', command_line.DECODE_FLAGS, 'search')


def test_every_shipped_config_resolves():
  variants = {'wmt_de_en.py': ['base', 'big'], 'wmt_en_fr.py': ['base', 'big'], 'multi30k.py': ['overnight'],
              'recurrent.py': ['bahdanau', 'sutskever', 'cho', 'luong_dot', 'luong_general'],
              'table3.py': table3.VARIANTS, 'ablation.py': ablation.VARIANTS}
  for path in command_line.shipped_configs():
    for variant in ['', *variants.get(os.path.basename(path), [])]:
      spec = f'{path}:{variant}' if variant else path
      command_line.choose_length(command_line.load_config(spec), {})


SCRIPT = ('import sys; from options import command_line as c; o = c.parse_train(sys.argv, "Trains."); '
          'assert not {"jax", "numpy", "tensorflow_datasets"} & set(sys.modules); print(o.config.model.d_model)')


@pytest.mark.parametrize('arguments, code, out, err', [
    (['--help'], 0, '--config.model.d_model', ''), ([*ASKED[1:], '--config.model.d_model=64'], 0, '64', ''),
    ([*ASKED[1:], '--config.model.d_modle=64'], 2, '', 'did you mean')])
def test_answers_without_heavy_imports(arguments, code, out, err):
  done = subprocess.run([sys.executable, '-c', SCRIPT, *arguments], capture_output=True, text=True, timeout=60,
                        cwd=command_line.ROOT)
  assert done.returncode == code and out in done.stdout and err in done.stderr and 'Traceback' not in done.stderr
