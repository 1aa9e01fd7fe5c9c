"""visualize.py from its command line to its page, on a translator that never was trained."""

import json

import pytest

import visualize
from experiment import command_line, translation
from experiment.command_line import ConfigError
from explorer import reports
from tests.explorer_stand_ins import LINES, small_translator


def options(*arguments):
  return command_line.parse_visualize(['visualize.py', *arguments], 'Looks.')


@pytest.fixture
def run(tmp_path, monkeypatch):
  """The folder of a run, and what is loaded from it."""
  config = command_line.load_config('configs/phrasebook.py')
  (tmp_path / 'config.json').write_text(config.to_json())
  monkeypatch.setattr(translation, 'load', lambda *_, **__: small_translator())
  return tmp_path


def held(page):
  return json.loads(page.read_text().split('id="report">')[1].split('</script>')[0])


def test_switches_are_true_or_false():
  assert options('--workdir=a').effects and not options('--workdir=a').open
  chosen = options('--workdir=a', '--effects=false', '--open', '--search.beam_size=1')
  assert not chosen.effects and chosen.open and chosen.search == {'beam_size': 1}


def test_lines_become_a_page(run):
  (run / 'in.txt').write_text(f'{LINES[0]}\n\n{LINES[1]}\n')
  assert visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--output={run}/page.html')) == 0
  report = held(run / 'page.html')
  assert [sentence['source'] for sentence in report['sentences']] == LINES[:2]
  assert report['compare'] == 1 - report['opening']['sentence']
  assert len(report['sentences'][0]['effects']['heads']['cross'][1]) == 2 and 'vectors' in report['sentences'][0]
  assert ['run', str(run)] in report['card']
  first = report['opening']
  assert report['sentences'][first['sentence']]['shapes'][first['kind']][:2] == [2, 2]


def test_references_stand_beside_what_the_search_found(run):
  (run / 'in.txt').write_text(f'{LINES[0]}\n')
  (run / 'ref.txt').write_text(f'{LINES[3]}\n')
  visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--reference={run}/ref.txt',
                         f'--output={run}/page.html', '--effects=false'))
  found, reference = held(run / 'page.html')['sentences']
  assert found['source'] == reference['source'] == LINES[0] and reference['target'] == LINES[3]
  assert 'reference' in reference['origin'] and 'effects' not in found


@pytest.mark.parametrize('lines, told', [('\n\n', 'at least one sentence')])
def test_nothing_to_see_is_an_error(run, lines, told):
  (run / 'in.txt').write_text(lines)
  with pytest.raises(ConfigError, match=told):
    visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--output={run}/page.html'))
  assert not (run / 'page.html').exists()


def test_a_report_shows_itself_in_a_notebook():
  shown = reports.explain(small_translator(), LINES[:1], with_effects=False)._repr_html_()
  assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and 'allow-scripts' in shown
  assert shown.count('"') == 2 * shown.count('="')  # the page's own quotes are escaped
