"""The choices of an option: a registry in which each implementation registers itself, next to its code.

    ACTIVATIONS = Registry('model.activation')

    @ACTIVATIONS.register('relu', 'max(0, x), the paper')
    def relu(x): ...

The keys of a registry are the only list of its choices: the check of a record, the error message and --help read them.
An entry also names the other options that it reads, so that a record knows which of its fields have no effect.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

Entry = TypeVar('Entry')

REGISTRIES: dict[str, 'Registry[Any]'] = {}  # by the dotted name of the option that chooses from it


class Registry(Mapping[str, Entry], Generic[Entry]):
  """Name to implementation, in the order of registration; a Mapping, so that `REGISTRY[name]` is the implementation."""

  def __init__(self, option: str):
    """Make the registry of an option, which may have one only.

    Args:
      option: its dotted name in the configuration, such as 'model.activation'.
    """
    if option in REGISTRIES:
      raise ValueError(f'the choices of {option} have a registry already')
    self.option = option
    self._entries: dict[str, Entry] = {}
    self._descriptions: dict[str, str] = {}
    self._uses: dict[str, tuple[str, ...]] = {}
    REGISTRIES[option] = self

  def register(self, name: str, description: str = '', uses: Sequence[str] = ()) -> Callable[[Entry], Entry]:
    """Return a decorator that registers what it decorates under `name`.

    Args:
      name: as users write it.
      description: a few words for --help; may be empty where the name says it all.
      uses: other options of the same record that this choice reads, and some other choice does not.

    Raises:
      ValueError: when the name is taken.
    """
    if name in self._entries:
      raise ValueError(f'{self.option} has a choice {name!r} already')

    def enter(entry: Entry) -> Entry:
      self._entries[name], self._descriptions[name], self._uses[name] = entry, description, tuple(uses)
      return entry

    return enter

  def add(self, name: str, entry: Entry, description: str = '', uses: Sequence[str] = ()) -> None:
    """Register something that cannot be decorated, such as a value."""
    self.register(name, description, uses)(entry)

  def remove(self, name: str) -> None:
    """Remove an entry; for tests that register one."""
    del self._entries[name], self._descriptions[name], self._uses[name]

  def mistakes(self, value: Any) -> Iterator[str]:
    """Yield a sentence when a value of the option is not one of the choices."""
    if value not in self._entries:
      yield f'{self.name} is {value!r}; expected one of {", ".join(self)}'

  @property
  def name(self) -> str:
    """The option's name without its section."""
    return self.option.rpartition('.')[2]

  def idle(self, value: str) -> dict[str, str]:
    """Return the options that other choices read and this one does not, each with the reason."""
    readers: dict[str, list[str]] = {}
    for choice, used in self._uses.items():
      for option in used:
        readers.setdefault(option, []).append(choice)
    return {option: f'{self.name} is {value!r}; only {" and ".join(choices)} use{"s" * (len(choices) == 1)} it'
            for option, choices in readers.items() if value not in choices}

  def describe(self) -> str:
    """Return the choices with their descriptions, as --help prints them."""
    return ', '.join(f'{name} ({text})' if text else name for name, text in self._descriptions.items())

  def __getitem__(self, name: str) -> Entry:
    return self._entries[name]

  def __iter__(self) -> Iterator[str]:
    return iter(self._entries)

  def __len__(self) -> int:
    return len(self._entries)
