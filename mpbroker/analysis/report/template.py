"""The plotly templates of the page: type, grid, legend and colour scales, once for light and once for dark ground.

Runs in the process of a command; pure. The page's script puts one of them under every figure.
"""

from typing import Any, Literal

from mpbroker.analysis.report import palette
from mpbroker.analysis.report.look import FONT

Ground = Literal["light", "dark"]


def template(ground: Ground) -> dict[str, Any]:
    """A plotly layout template: {"layout": …, "data": …}."""
    return {"layout": _layout(ground), "data": _data(ground)}


def _surface(name: str, ground: Ground) -> str:
    return str(getattr(palette.SURFACE[name], ground))


def _scale(shades: tuple[palette.Shade, ...], ground: Ground) -> list[list[Any]]:
    return [[place / (len(shades) - 1), getattr(shade, ground)] for place, shade in enumerate(shades)]


def _layout(ground: Ground) -> dict[str, Any]:
    ink, muted, paper = (_surface(name, ground) for name in ("ink", "muted", "paper"))
    heat, diverging = _scale(palette.HEAT, ground), _scale(palette.DIVERGING, ground)
    return {
        "font": {"family": FONT, "size": 13, "color": muted},
        "paper_bgcolor": paper,
        "plot_bgcolor": paper,
        "colorway": [getattr(shade, ground) for shade in palette.CATEGORIES],
        "separators": ".\u202f",
        "autotypenumbers": "strict",
        "colorscale": {"sequential": heat, "sequentialminus": heat, "diverging": diverging},
        "coloraxis": {"colorbar": _colorbar(ground)},
        "margin": {"l": 56, "r": 16, "t": 16, "b": 48, "pad": 4},
        "xaxis": _axis(ground, grid=False),
        "yaxis": _axis(ground, grid=True),
        "bargap": 0.28,
        "bargroupgap": 0.08,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": paper,
            "bordercolor": _surface("line", ground),
            "align": "left",
            "font": {"family": FONT, "size": 13, "color": ink},
            "namelength": 40,
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12.5, "color": ink},
            "itemsizing": "constant",
            "title": {"font": {"size": 12.5}},
            "bgcolor": "rgba(0,0,0,0)",
            "traceorder": "normal",
        },
        "updatemenudefaults": _menu(ground),
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": muted,
            "activecolor": _surface("accent", ground),
            "orientation": "h",
        },
        "annotationdefaults": {
            "font": {"size": 12, "color": muted},
            "arrowcolor": muted,
            "arrowwidth": 1,
            "arrowhead": 0,
        },
        "shapedefaults": {"line": {"color": muted, "width": 1}, "layer": "below"},
    }


def _axis(ground: Ground, grid: bool) -> dict[str, Any]:
    muted, line = _surface("muted", ground), _surface("line", ground)
    return {
        "automargin": True,
        "showgrid": grid,
        "gridcolor": _surface("grid", ground),
        "gridwidth": 1,
        "zeroline": False,
        "showline": not grid,
        "linecolor": line,
        "linewidth": 1,
        "ticks": "" if grid else "outside",
        "ticklen": 5,
        "tickcolor": line,
        "tickfont": {"size": 12, "color": muted},
        "title": {"standoff": 12, "font": {"size": 12.5, "color": muted}},
        "exponentformat": "SI",
        "minexponent": 4,
        "hoverformat": ",.4~g" if grid else None,
    }


def _menu(ground: Ground) -> dict[str, Any]:
    """Buttons and drop-downs that choose what a figure shows."""
    return {
        "bgcolor": _surface("wash", ground),
        "bordercolor": _surface("line", ground),
        "borderwidth": 1,
        "pad": {"b": 4},
        "font": {"family": FONT, "size": 12.5, "color": _surface("ink", ground)},
    }


def _colorbar(ground: Ground) -> dict[str, Any]:
    return {
        "thickness": 10,
        "outlinewidth": 0,
        "len": 0.9,
        "ticks": "",
        "tickfont": {"size": 11.5, "color": _surface("muted", ground)},
        "title": {"side": "right", "font": {"size": 12}},
        "exponentformat": "SI",
    }


def _data(ground: Ground) -> dict[str, Any]:
    paper = _surface("paper", ground)
    heat = _scale(palette.HEAT, ground)
    return {
        "scatter": [{"line": {"width": 2}, "marker": {"size": 7, "line": {"width": 0.5, "color": paper}}}],
        "bar": [
            {
                "marker": {"line": {"width": 0.5, "color": paper}},
                "error_x": {"color": _surface("ink", ground), "thickness": 1.2},
                "error_y": {"color": _surface("ink", ground), "thickness": 1.2},
            }
        ],
        "heatmap": [{"colorscale": heat, "colorbar": _colorbar(ground), "xgap": 0, "ygap": 0, "hoverongaps": False}],
        "contour": [{"colorscale": heat, "colorbar": _colorbar(ground)}],
        "histogram": [{"marker": {"line": {"width": 0.5, "color": paper}}}],
        "box": [{"line": {"width": 1.2}}],
    }
