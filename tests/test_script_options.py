"""The flags of each script become typed records, all mistakes are told together, and --help says what there is."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from checks import choices
from checks.errors import ConfigError
from options import (
  analyze_options,
  compare_options,
  configurations,
  convert_options,
  decode_options,
  recipe_options,
  sweep_options,
  train_options,
  visualize_options,
)
from options.flags import NO_INPUT, Flag
from options.help import help_text, option_comments

TREES = {analyze_options: '', compare_options: '', decode_options: 'search', recipe_options: 'config',
         sweep_options: 'config',
         train_options: 'config', visualize_options: 'search'}


def decode(*arguments):
  return decode_options.parse(['decode.py', '--workdir=runs/x', *arguments], 'Decodes.')


def test_decode_options_hold_only_the_given_search_options():
  options = decode('--input=in.txt', '--search.beam_size=5', '--search.alpha=1')
  assert options.search == {'beam_size': 5, 'alpha': 1.0}
  assert (options.input, options.output, options.references, options.checkpoints) == ('in.txt', '-', (), ('final',))


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
  given = decode('--n_best=2', '--format=jsonl')
  assert given.not_for('language_modelling') == ['--format=jsonl', '--n_best=2'] and not given.not_for('translation')
  assert decode('--part_lines=7', '--output=o').not_for('classification') == ['--part_lines=7']
  given = decode('--input=tfds:x:test', '--long_lines=split')
  assert given.not_for('fine_tuning') == ['--input=tfds:x:test', '--long_lines=split']


def test_values_have_their_types():
  options = decode('--columns=source,forbidden', '--mbr', '8', '--attention', '--format=jsonl', '--part_lines=7',
                   '--output=o')
  assert (options.columns, options.mbr, options.attention, options.part_lines) == (('source', 'forbidden'), 8, True, 7)
  assert (options.workdirs, options.n_best, options.paper_bleu, options.target) == (('runs/x',), 1, None, None)
  ensemble = decode('--workdir=a,b', '--checkpoint=best,7', '--reference=r,s', '--attention=false')
  assert (ensemble.workdirs, ensemble.checkpoints) == (('a', 'b'), ('best', '7'))
  assert ensemble.references == ('r', 's') and ensemble.attention is False


def test_decode_knows_every_choice_that_there_is():
  from decoding import alignments, minimum_bayes_risk, scores
  from decoding.translator import Request
  choices = {flag.name: tuple(flag.choices) for flag in decode_options.FLAGS}
  for name, known in (('alignment', alignments.METHODS), ('utility', minimum_bayes_risk.UTILITIES),
                      ('paper_bleu', scores.PAPERS)):
    assert set(choices[name]) == set(known)
  assert choices['columns'] == Request._fields[:4]


def test_visualize_knows_every_figure_that_there_is():
  import visualize
  figures, = (flag.choices for flag in visualize_options.FLAGS if flag.name == 'figure')
  assert set(figures) == set(visualize.FIGURES) and all(figures.values())


@pytest.fixture
def standard_input(tmp_path, monkeypatch):
  """Put something in the place of standard input: bytes of a pipe, still open or closed, or the path of a file."""
  with contextlib.ExitStack() as opened:
    def put(given, is_open=False):
      if isinstance(given, bytes):
        reader, writer = os.pipe()
        os.write(writer, given)
        opened.callback(os.close, writer) if is_open else os.close(writer)
        given = reader
      monkeypatch.setattr(sys, 'stdin', opened.enter_context(open(given, encoding='utf-8')))
    yield put


@pytest.mark.parametrize('script', [decode_options, visualize_options])
def test_empty_standard_input_is_a_mistake_among_the_flags(script, standard_input, tmp_path, capsys):
  for given in (b'', '/dev/null', tmp_path / 'empty'):
    (tmp_path / 'empty').touch()
    standard_input(given)
    assert 'standard input has ended without a line' in refused(capsys, script, '--workdir=a')
    script.parse(['x.py', '--workdir=a', '--input=in.txt'], '')
  for given, is_open in ((b'a', False), (b'a', True), (b'', True), (__file__, False)):
    standard_input(given, is_open)
    assert script.parse(['x.py', '--workdir=a'], '').input == '-'
  standard_input(b'')
  visualize_options.parse(['x.py', '--workdir=a', '--format=svg', '--figure=curves'], '')  # reads no sentence


def test_standard_input_that_ends_empty_later_is_the_same_mistake(standard_input):
  import decode
  from decoding import text_lines
  standard_input(b'')
  for read in (lambda: text_lines.read('-'), lambda: decode.converse(None, None)):
    with pytest.raises(ConfigError, match=NO_INPUT):
      read()


def test_decode_names_the_nearest_search_option(capsys):
  with pytest.raises(SystemExit) as ended:
    decode('--beam_size=5')
  assert ended.value.code == 2
  assert '--search.beam_size?' in capsys.readouterr().err


def refused(capsys, script, *arguments):
  """What a script says of mistaken flags."""
  with pytest.raises(SystemExit) as ended:
    script.parse(['x.py', *arguments], 'Does.')
  assert ended.value.code == 2
  return capsys.readouterr().err


def test_compare_takes_its_files_in_order(capsys):
  options = compare_options.parse(['compare.py', 'r,s', 'a', '--samples', '20', 'b', 'c', '--sentences=0'], 'Compares.')
  assert options == compare_options.CompareOptions(('r', 's'), ('a', 'b', 'c'), samples=20, sentences=0)
  told = refused(capsys, compare_options, 'r', '--samples=0', '--sentences=-1', '--sample=3')
  for words in ('4 mistakes', 'SYSTEMS is missing', '--samples=0: expected a positive whole number',
                '--sentences=-1: expected a whole number, 0 or more', 'did you mean --samples?'):
    assert words in told
  assert 'expected two different systems or more, found a a' in refused(capsys, compare_options, 'r', 'a', 'a')
  assert '--language=Chinese: expected a code of two or three letters' in refused(
      capsys, compare_options, 'r', 'a', 'b', '--language=Chinese')


def test_a_file_that_is_given_by_its_flag_takes_no_word_of_the_others(capsys):
  read = lambda *words: compare_options.parse(['compare.py', *words, '--language=zh-TW'], '')
  assert read('--reference=r', 'a', 'b', 'c') == read('r', 'a', 'b', 'c') == read('--systems=a,b,c', 'r')
  assert "'c' stands alone" in refused(capsys, compare_options, 'r', '--systems=a,b', 'c')


@pytest.mark.parametrize('script, paths, plain', [
    (decode_options, 'workdirs input output references target', '--workdir=~/a,~/b --input=~/i --output=~/o --target=~/t'),
    (decode_options, 'references', '--workdir=a --input=i --reference=~/r,~/s'),
    (visualize_options, 'workdir input output reference', '--workdir=~/a --input=~/i --output=~/o --reference=~/r'),
    (visualize_options, 'workdir output beside', '--workdir=~/a --output=~/o --format=svg --figure=curves --beside=~/b,~/c'),
    (analyze_options, 'workdir input output reference pruned_workdir', '--workdir=~/a --input=~/i --output=~/o '
     '--reference=~/r --prune=1 --pruned_workdir=~/p'),
    (compare_options, 'references systems', '~/r,~/s ~/a ~/b'),
    (convert_options, 'workdir place vocabularies', 'import --workdir=~/w --from=~/m.npz --vocabulary=~/v,~/w'),
    (convert_options, 'workdir output', 'export --workdir=~/w --output=~/o --to=stablehlo'),
    (train_options, 'workdir', '--config=~/mine.py --workdir=~/w')])
def test_a_home_stands_for_itself_in_every_path(script, paths, plain, tmp_path, monkeypatch):
  """As in --output=~/out: shells replace ~ at the start of a word alone."""
  monkeypatch.setenv('HOME', str(tmp_path))
  shutil.copy(f'{configurations.CONFIGS}/default.py', tmp_path / 'mine.py')
  found = script.parse(['x.py', *plain.split()], '')
  given = [getattr(found, name) for name in paths.split()]
  for path in (path for value in given if value for path in ([value] if isinstance(value, str) else value)):
    assert os.path.dirname(path) == str(tmp_path)
  assert sum(map(bool, given)) >= 1 and '~' not in f'{found.__dict__ | {"arguments": ()}}'
  assert Flag('tag').read('~') == '~'  # no path


def test_what_does_nothing_beside_other_flags_is_refused(capsys):
  told = refused(capsys, visualize_options, '--workdir=a', '--training', '--effects=false', '--beside=b', '--figure=head')
  for words in ('3 mistakes', '--training with --effects', '--training with --beside', '--figure=head: expected one of '):
    assert words in told
  assert '--search.beam_size=2 is no option' in refused(capsys, analyze_options, '--workdir=a', '--search.beam_size=2')


@pytest.mark.parametrize('flags, words', [
    ('--figure=cross', '--figure: only a figure has these'), ('--beside=b', '--beside: only a figure has these'),
    ('--format=png --open', '--format=png with --open: only a page'),
    ('--format=svg --figure=cross --vectors --effects=false', '--format=svg with --effects, --vectors'),
    ('--format=png --figure=curves --input=i --reference=r', '--figure=curves with --input, --reference'),
    ('--format=png --figure=positions --checkpoint=best', '--figure=positions with --checkpoint'),
    ('--format=png --figure=cross --beside=b', '--figure=cross with --beside'),
    ('--format=png --figure=curves --search.beam_size=1', 'shows no sentence, and nothing is searched; leave out --search.'),
    ('--live --reference=r', '--reference without --input'),
    ('--training --search.beam_size=1', '--training shows the targets that were watched, and nothing is searched'),
    ('--format=png --figure=distributions --input=i --reference=r --search.alpha=1.0', 'leave out --search.alpha')])
def test_what_does_nothing_for_a_page_or_a_figure_is_refused(flags, words, capsys):
  assert words in refused(capsys, visualize_options, '--workdir=a', *flags.split())


@pytest.mark.parametrize('flags', [
    '--input=i --reference=r --search.beam_size=1 --vectors --open --checkpoint=best', '--live --search.alpha=1.0',
    '--format=png --figure=cross --input=i --search.beam_size=1 --checkpoint=best', '--format=svg --figure=positions',
    '--format=png --figure=pruning --beside=a,b', '--format=png --figure=curves', '--training --open',
    '--format=png --figure=distributions --input=i --reference=r'])
def test_what_has_an_effect_on_a_page_or_a_figure_is_accepted(flags):
  visualize_options.parse(['x.py', '--workdir=a', *flags.split()], '')


@pytest.mark.parametrize('script, words, found', [
    (recipe_options, 'distil --config=configs/toy.py --workdir=x --teachers A B C --real D', [
        f"'{word}' stands alone; several values of --teachers are separated by commas" for word in 'BC'] + [
            "'D' stands alone; expected --option=value"]),
    (convert_options, 'export --workdir=a --to=huggingface --output=b model --checkpoint=best', [
        "'model' stands alone; expected --option=value"])])
def test_every_word_that_no_flag_takes_is_named(script, words, found, capsys):
  told = refused(capsys, script, *words.split())
  assert all(line in told for line in found) and told.count('stands alone') == len(found)


@pytest.mark.parametrize('flags, idle', [
    ('--columns=source,prefix', '--columns'), ('--n_best=2 --format=jsonl', '--n_best'),
    ('--mbr=4 --utility=bleu', '--mbr, --utility'),
    ('--attention --alignment=plain --format=jsonl', '--alignment, --attention'),
    ('--stats --part_lines=7', '--stats, --part_lines'),
    ('--paper_bleu=wmt14 --input=split:test', '--paper_bleu'),
    ('--paper_bleu=wmt14 --reference=r', '--reference, --paper_bleu'),
    ('--format=pharaoh', '--format=pharaoh')])
def test_scoring_refuses_what_only_translating_has(flags, idle, capsys):
  told = refused(capsys, decode_options, '--workdir=a', '--input=in', '--target=t', *flags.split())
  assert told == f'error: --target scores given translations and translates nothing; leave out {idle}\n'
  decode_options.parse(['decode.py', '--workdir=a', '--input=in', '--output=o', '--target=t', '--format=jsonl'], '')


@pytest.mark.parametrize('flags, words', [
    ('--utility=bleu', '--utility=bleu has no effect without --mbr'),
    ('--alignment=plain', '--alignment=plain has no effect with --format=text'),
    ('--part_lines=7', '--part_lines=7 has no effect with --output=-'),
    ('--columns=source,required,required', '--columns=source,required,required names required twice'),
    ('--paper_bleu=wmt14 --reference=r,s', '--paper_bleu=wmt14 with 2 references')])
def test_a_flag_that_needs_another_is_refused_without_it(flags, words, capsys):
  assert words in refused(capsys, decode_options, '--workdir=a', '--input=in', *flags.split())


def test_a_flag_says_its_default_once_and_it_is_a_value_of_it():
  for script in TREES:
    for flag in script.FLAGS:
      assert flag.help or flag.stands_for
      if flag.default not in (None, ()):
        assert flag.read(flag.written(flag.default).partition('=')[2]) == flag.default
      assert flag.kind is not bool or type(flag.default) is bool


def test_every_option_has_its_comment():
  assert set(option_comments()) == set(configurations.leaves(configurations.default_tree()))
  assert all(option_comments().values())


def test_help_names_what_scripts_rely_on():
  text = help_text('Trains.', train_options.FLAGS, 'config')
  for name in ('model.d_model=512', 'model.norm=post', 'train.num_minutes=…', 'train.batch_tokens=25000',
               'data.tsv=…', 'seed=0'):
    assert f'--config.{name}' in text
  assert 'width of embeddings' in text and '--workdir' in text and 'configs' in text
  assert '--config.optimizer.beta1' not in text
  assert '--config.optimizer.beta1=0.9' in help_text('Trains.', train_options.FLAGS, 'config', True)
  assert '--search.beam_size=4' in help_text('Decodes.', decode_options.FLAGS, 'search')


@pytest.mark.parametrize('script', TREES)
def test_help_describes_each_flag(script):
  text = help_text('Does.', script.FLAGS, TREES[script])
  words = ' '.join(text.split())
  for flag in script.FLAGS:
    assert flag.label in text and ' '.join(flag.described().split()) in words
  assert all(len(line) <= 120 for line in text.splitlines())
  assert ('--search.beam_size' in text, '--config.model.d_model' in text) == (
      TREES[script] == 'search', TREES[script] == 'config')


def test_help_shows_the_choices_that_are_registered(monkeypatch):
  monkeypatch.setattr(choices, 'REGISTRIES', dict(choices.REGISTRIES))
  monkeypatch.delitem(choices.REGISTRIES, 'search.extra_length', raising=False)
  registry = choices.Registry('search.extra_length')
  registry.add('short', 1, 'few tokens')
  registry.add('long', 2)
  for text in (help_text('Decodes.', decode_options.FLAGS, 'search'),
               help_text('Trains.', train_options.FLAGS, 'config', True)):
    assert 'search.extra_length=50' in text and ': short (few tokens), long' in ' '.join(text.split())
  assert 'short (few tokens)' not in help_text('Trains.', train_options.FLAGS, 'config')  # among the most used alone


def test_help_says_choices_and_default():
  flag = Flag('dish', 'what is served', default='soup', choices={'soup': 'hot', 'bread': ''}, only_for='lunch')
  assert flag.described() == 'what is served: soup (hot), bread (default soup)'
  text = help_text('Serves.', [flag, Flag('table', 'where', required=True)])
  assert text.index('Flags:') < text.index('--table=…') and text.index('Flags for lunch alone:') < text.index('--dish=…')


EACH = """
import importlib, pathlib
from checks import choices
from checks.errors import ConfigError
from options import help
told = {name: registry.describe() for name, registry in help.registries_by_option().items()}
for room in help.ROOMS:
  for path in sorted(pathlib.Path(room).rglob('*.py')):
    importlib.import_module('.'.join(path.with_suffix('').parts).removesuffix('.__init__'))
assert told == {name: registry.describe() for name, registry in choices.REGISTRIES.items()}, told
"""


def test_help_finds_every_module_that_enters_a_choice():
  subprocess.run([sys.executable, '-c', EACH], check=True, cwd=configurations.ROOT)
