"""Places of the user's code in messages."""

from functad.places import name_of


def test_names_of_functions_in_functions():
    make = lambda: lambda x: x  # noqa: E731

    assert name_of(make()) == "test_names_of_functions_in_functions.<lambda>"
