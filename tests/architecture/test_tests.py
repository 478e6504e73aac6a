"""Rules that the tests themselves keep."""


def test_every_property_test_shows_an_example(request):
    """A property test without a concrete example says nothing to its reader."""
    without = [
        item.nodeid
        for item in request.session.items
        if hasattr(getattr(item, "obj", None), "hypothesis")
        and not getattr(item.obj, "hypothesis_explicit_examples", ())
    ]
    assert not without
