"""Makes a run of a pretrained model, and of a run a model that other toolkits load.

    python convert.py import --from=opus-mt-en-de --workdir=runs/opus
    python convert.py import --from=model.npz --vocabulary=vocab.yml --source_language=en --target_language=de \\
        --workdir=runs/opus
    python convert.py export --workdir=runs/wmt --to=huggingface --output=wmt-hf
    python convert.py export --workdir=runs/wmt --to=ctranslate2 --output=wmt-ct2 --quantization=int8

docs/exchange.md says what is exact and what is not.
"""

import os
import shlex
import sys

from checks import signals, startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import convert_options, programs
from options.convert_options import ConvertOptions

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = convert_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

from exchange import exporting, importing  # noqa: E402


def main(options: ConvertOptions) -> int:
  """Import or export, say what was made, and return the exit code."""
  signals.restore()
  if options.action == 'import':
    made = importing.to_run(options.place, options.workdir, (options.source_language, options.target_language),
                            options.vocabularies)
    for note in made.notes:
      print(f'Note: {note}', file=sys.stderr)
    print(f'{options.workdir} is a run now. To translate with it:\n  {shlex.quote(programs.python())} decode.py '
          f'--workdir={shlex.quote(options.workdir)}')
  else:
    for note in exporting.write(options.workdir, options.checkpoint, options.to, options.output, options.quantization):
      print(f'Note: {note}', file=sys.stderr)
    print(f'{options.output} holds the model of {options.workdir} for {options.to}.')
  return 0


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
