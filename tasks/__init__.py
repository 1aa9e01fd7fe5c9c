"""Tasks, that is, what a run is trained for: one file and one class each; and setup, which makes a run's records.

    task              the interface of every task; TASKS
    translation       pairs of sentences
    language_model    running text
    classification    labelled text
    records, setup    a run's options as records, made from a configuration or from a run's folder
    trained           a trained run, read from its folder
    compiling         what a step needs of devices that are not here, as text for people
    inspection        what training would read, as text for people

Importing this package registers all tasks. A new one is a file and a line here.
"""

from tasks import classification, language_model, translation
from tasks.task import TASKS, task_of
from tasks.trained import load

__all__ = ['TASKS', 'classification', 'language_model', 'load', 'task_of', 'translation']
