"""transformers itself computes with exported runs what the runs compute: `pytest -m peers`, see make test-peers.

It runs in an environment of its own, whose Python PEERS_PYTHON names: it needs torch, transformers and sentencepiece.
"""

import json
import os
import subprocess

import numpy as np
import pytest

import tasks
from exchange import exporting
from tests.test_exchange import EXPECTED, MODELS, forced, own_run, pieces  # noqa: F401  (pieces: a fixture)

pytestmark = [pytest.mark.peers, pytest.mark.skipif('PEERS_PYTHON' not in os.environ, reason='PEERS_PYTHON names no Python')]
LINES = EXPECTED['references'][:4]
# For every folder: the ids of the lines, the logits of each line's ids as its own translation, and greedy outputs.
SCRIPT = '''
import json, sys, torch, transformers
torch.set_num_threads(1)
answers = {}
for folder in sys.argv[2:]:
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
  answers[folder] = []
  for line in json.loads(sys.argv[1]):
    ids = tokenizer(line)['input_ids']
    shifted = torch.tensor([[model.config.decoder_start_token_id, *ids[:-1]]])
    with torch.no_grad():
      logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=shifted).logits[0]
      output = model.generate(torch.tensor([ids]), num_beams=1, do_sample=False, max_new_tokens=20)[0]
    answers[folder].append([ids, logits.tolist(), output.tolist()[1:]])
print(json.dumps(answers))
'''


def test_transformers_computes_the_logits_of_exported_runs(pieces, tmp_path):  # noqa: F811
  chosen = [name for name in MODELS if name != 'pre untied']  # which Hugging Face has no model for
  for name in chosen:
    own_run(tmp_path / 'runs' / name, pieces, **MODELS[name])
    exporting.write(str(tmp_path / 'runs' / name), 'final', 'huggingface', str(tmp_path / name))
  command = [os.environ['PEERS_PYTHON'], '-c', SCRIPT, json.dumps(LINES), *(str(tmp_path / name) for name in chosen)]
  answers = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
  for name in chosen:
    run = tasks.load(str(tmp_path / 'runs' / name), beam_size=1)
    model, source, target = run.parts
    greedy = [list(found.ids) for found in run.translate(LINES)]
    for line, ours, (ids, theirs, output) in zip(LINES, greedy, answers[str(tmp_path / name)]):
      assert ids == [*source.encode(line), source.eos_id], name
      logits = np.asarray(forced(model, ids, ids, target.bos_id)(run.params[0]))[0]
      np.testing.assert_allclose(logits, theirs, atol=1e-4, err_msg=name)
      # There PAD is forbidden, which random models here write, and the last of 20 is EOS whatever the model says.
      most = min(*(place for place, number in enumerate([*ours, target.pad_id]) if number == target.pad_id), 19)
      assert output[:most] == ours[:most], name
