"""The type checker of the tests' import hook: beartype, which looks at each argument once a call."""

from typing import Any

from beartype import beartype


def check(function):
  """Check the parameters of a function, or, in what jaxtyping calls after it, the value that is returned alone.

  jaxtyping calls two functions of the same signature, one before and one after the call, and remembers the sizes in
  between. Only the second says what is returned.
  """
  if function.__annotations__.get('return', Any) is not Any:
    function.__annotations__ = {'return': function.__annotations__['return']}
  return beartype(function)
