"""The benchmark of searches gives another system the model, the lines and its turns, and refuses what that cannot have."""

import dataclasses
import os
import sys

import pytest

import tasks
from benchmarks import decode_text, packed_work
from checks.errors import ConfigError
from decoding.translator import Translator
from transformer import architectures


def test_another_system_translates_the_lines_of_a_run_in_turn(run, monkeypatch, capsys):
  monkeypatch.setattr(sys, 'argv', ['decode_text.py', f'--workdir={run}', '--input=split:test', '--lines=6', '--threads=1',
                                    '--systems=ctranslate2,ours', '--rounds=2', f'--peer_python={sys.executable}'])
  decode_text.main()
  rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  theirs, ours = (dict(zip(rows[0], row)) for row in rows[2:])
  assert theirs['system'].startswith('CTranslate2 ') and ours['system'].startswith('this project')
  assert float(theirs['ratio']) == 1 and float(ours['CPU-seconds']) > 0 and float(theirs['words']) > 0


@pytest.mark.parametrize('options, words', [
    (dict(dtype='bfloat16'), "config.model.dtype is 'bfloat16'; expected float32"),
    (dict(attention_score='additive'), "ctranslate2: config.model.attention_score is 'additive'"),
    (dict(positions='rotary'), "^--systems: .* huggingface: config.model.positions is 'rotary'; expected sinusoidal$")])
def test_a_model_that_another_system_cannot_have_is_refused_by_its_options(options, words, run, tmp_path):
  known = tasks.load(str(run))
  model, source, target = known.parts
  other = architectures.build(dataclasses.replace(model.config, **options))
  with pytest.raises(ConfigError, match=words):
    packed_work.write_work(str(tmp_path), Translator([other], known.params, source, target, known.search_config), ['A dog.'],
                           ['ctranslate2', 'huggingface'])
  assert not os.listdir(tmp_path)
