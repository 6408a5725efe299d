"""Both templates are what plotly takes, and have the same keys."""

import plotly.graph_objects as go
import pytest

from mpbroker.analysis.report.template import template


def _keys(value):
    return {key: _keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_plotly_takes_it(ground):
    figure = go.Figure(layout={"template": template(ground)})
    assert figure.layout.template.layout.font.size == 13


def test_light_and_dark_differ_in_colours_alone():
    assert _keys(template("light")) == _keys(template("dark")) and template("light") != template("dark")
