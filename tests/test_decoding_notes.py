"""What is told beside translations: unfinished runs, lines that were cut, compilation, and what the search computed."""

import json
import shutil

import pytest

import decode
import train
from checks.errors import ConfigError
from decoding import text_lines
from decoding import translator as translators
from options import decode_options
from tasks import trained
from tests.test_translation import BEAM, LINES, parts, translator  # noqa: F401  fixtures
from tests.tiny_runs import options
from training.run_folder import RunFolder
from transformer.search import SearchConfig


def test_top_beams_is_another_name_of_n_best():
  parse = lambda *words: decode_options.parse(['decode.py', '--workdir=runs/a', '--format=jsonl', *words], '')
  assert parse('--search.top_beams=3') == parse('--n_best=3') and parse('--search.top_beams', '3').n_best == 3
  assert parse().n_best == 1 and not parse('--search.top_beams=3').search


def test_both_names_at_once_are_refused(capsys):
  with pytest.raises(SystemExit):
    decode_options.parse(['decode.py', '--workdir=runs/a', '--n_best=2', '--search.top_beams=3', '--format=jsonl'], '')
  assert '--n_best and --search.top_beams are two names of one option; give one' in capsys.readouterr().err


def test_more_translations_than_beams_are_refused_with_both_names():
  with pytest.raises(ValueError, match='n_best is 9, but beam_size keeps 4; expected 1 to 4, or a larger beam_size'):
    SearchConfig(n_best=9)


def change(workdir, **options):
  """Change options of the section train or optimizer in a copied run, without its manifest's knowing."""
  config = json.loads((workdir / 'config.json').read_text())
  for name, value in options.items():
    next(config[section] for section in ('train', 'optimizer') if name in config[section])[name] = value
  (workdir / 'config.json').write_text(json.dumps(config))


def test_a_run_that_is_not_finished_says_so(run, tmp_path):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  change(workdir, warmup_steps=8)
  assert trained.immaturity(str(workdir)) is None
  change(workdir, warmup_steps=9)
  assert 'was trained for 8 steps, fewer than the 9 of its warm-up' in trained.immaturity(str(workdir))
  results = json.loads((workdir / 'results.json').read_text())
  (workdir / 'results.json').write_text(json.dumps(results | {'step': 6}))  # it was finished there, went on and was stopped
  change(workdir, num_steps=100)
  assert 'is not finished: it was stopped at step 8 of 100' in trained.immaturity(str(workdir))
  (workdir / 'results.json').unlink()
  for length, words in (({'num_steps': 1245}, 'step 8 of 1,245,'), ({'num_epochs': 2.5}, 'step 8 of 2.5 epochs,'),
                        ({'num_minutes': 10}, 'step 8 of 10 minutes,')):
    change(workdir, **dict.fromkeys(('num_steps', 'num_epochs', 'num_minutes')) | length)
    assert f'is not finished: it was stopped at {words}' in trained.immaturity(str(workdir))


def test_decode_says_so_and_tells_what_it_computed(run, tmp_path, capsys):
  (tmp_path / 'in').write_text('one dog\n\ntwo cats\n')
  words = [f'--workdir={run}', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  for more in ([], ['--stats']):
    assert decode.main(decode_options.parse(['decode.py', *words, *more], '')) == 0
    told = capsys.readouterr().err
    assert 'fewer than the' in told and ('searched 2 lines' in told) == bool(more)
  assert len((tmp_path / 'out').read_text().splitlines()) == 3


@pytest.mark.parametrize('flags, last, words', [
    (['--columns=source,prefix'], 'dog\tHund\tKatze', 'line 3 has 3 tab-separated columns'),
    (['--columns=source,required', '--long_lines=split'], f'{"dog cat " * 20}\tHund', 'line 3 has .* its required phrases')])
def test_a_mistake_in_the_last_line_is_found_before_the_first_part(flags, last, words, run, tmp_path, monkeypatch):
  monkeypatch.setattr(translators.Translator, 'translate', lambda *given: pytest.fail('lines are translated'))
  (tmp_path / 'in').write_text(f'one dog\ntwo cats\n{last}\n')
  asked = [f'--workdir={run}', f'--input={tmp_path}/in', f'--output={tmp_path}/out', '--part_lines=1', *flags]
  with pytest.raises(ConfigError, match=words):
    decode.main(decode_options.parse(['decode.py', *asked], ''))
  assert [path.name for path in tmp_path.iterdir()] == ['in']


def test_rows_steps_and_tokens_are_counted(translator, monkeypatch):  # noqa: F811
  monkeypatch.setattr(translators, 'PATIENCE', 0.0)
  one, told = translator(BEAM), []
  one.say = told.append
  found = one.translate(LINES)
  tally, real = one.tally, [line for line in found if line.text]
  assert tally.lines == len(real) and tally.tokens == sum(len(line.token_log_probs) for line in real)
  assert tally.tokens <= tally.needed <= tally.computed and tally.computed % tally.steps == 0
  assert 0 <= tally.compiling <= tally.seconds
  assert any(text.startswith('compiling the search for 8 rows of up to 16 tokens') for text in told)


def test_scores_of_lines_that_were_cut_are_told_before_training_and_beside_the_score(corpus, tmp_path, capsys):
  """Learned positions leave a source what search.extra_length does not take; a cut one is scored against all of its reference."""
  short = ['--config.model.positions=learned', '--config.model.max_positions=24', '--config.search.extra_length=19']
  assert train.main(options(corpus, tmp_path / 'run', *short, '--config.train.num_steps=1')) == 0
  source, _ = RunFolder.open(str(tmp_path / 'run')).load_vocabularies()
  cut = lambda lines: [number for number, line in enumerate(lines, 1) if len(source.encode(line)) + 1 > 5]
  tested, validated = (cut((corpus / f'{name}.en').read_text().splitlines()) for name in ('test', 'val'))
  told, score = capsys.readouterr().out.split('Translating test')
  sentence = lambda name, numbers: f'{name}: only the first 5 tokens are translated of {text_lines.numbered(numbers)}; raise'
  first = [number for number in validated if number <= 5]  # those of train.eval_sentences
  assert 0 < len(tested) < 7 and 0 < len(first) < 5 and len(validated) > len(first)
  assert f'Note: {sentence("test", tested)}' in told and f'Note: {sentence("validation", first)}' in told
  assert sentence('test', tested) in score and 'validation: only' not in score
  assert 'loss and perplexity' not in told


def test_validation_pairs_that_the_loss_leaves_out_are_told(corpus, tmp_path, capsys):
  more = ['--config.data.max_length=5', '--config.train.num_steps=1']
  assert train.main(options(corpus, tmp_path / 'run', *more)) == 0
  source, target = RunFolder.open(str(tmp_path / 'run')).load_vocabularies()
  sides = [(corpus / f'val.{code}').read_text().splitlines() for code in ('en', 'de')]
  longer = sum(max(len(source.encode(a)), len(target.encode(b))) + 1 > 5 for a, b in zip(*sides))
  assert 0 < longer < 11
  assert f'Note: val: loss and perplexity leave out {longer} of 11 pairs, which have an empty side or are longer than data.max_length' in capsys.readouterr().out
