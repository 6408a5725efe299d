"""The completion scripts of bash, zsh and fish as text. Pure functions; the scripts call nothing of mpbroker.

Each script finds the place of the command line (the longest run of subcommands at its begin), then offers the words and
flags of that place, or the choices of the flag before the cursor. Where nothing is known, it offers files.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple


class Option(NamedTuple):
    """What may be given by a flag. `takes`: it has a value, `choices` of which may be known."""

    flags: list[str]
    help: str
    takes: bool
    choices: list[str]


class Place(NamedTuple):
    """The words before (without `mpbroker`), the words that may follow with their summaries, and the flags."""

    path: tuple[str, ...]
    words: dict[str, str]
    options: list[Option]


def option(action: argparse.Action) -> Option:
    """From a parser's action."""
    text = (action.help or "").replace("%%", "%")
    if "%(default)s" in text:
        text = text.replace("%(default)s", str(action.default))
    choices = [str(choice) for choice in action.choices or ()]
    return Option(list(action.option_strings), text, action.nargs != 0, choices)


def bash(places: list[Place]) -> str:
    """For `complete -F`; needs no bash-completion package."""
    cases = "\n".join(_bash_case(place) for place in places)
    values = "\n".join(_bash_values(place) for place in places if any(row.takes for row in place.options))
    known = " ".join(f'"{" ".join(place.path)}"' for place in places if place.path)
    return f"""\
# bash completion of mpbroker; made by `mpbroker completion bash`
_mpbroker() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" place="" words="" one next
    local known=({known})
    for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [ "$one" = help ] && [ -z "$place" ] && continue
        next="${{place:+$place }}$one"
        for one in "${{known[@]}}"; do [ "$one" = "$next" ] && place="$next"; done
    done
    COMPREPLY=()
    case "$place:$before" in
{values}
    esac
    case "$place" in
{cases}
    esac
    case "$word" in
        -*) ;;
        *) words="${{words%%|*}}" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "${{words//|/ }}" -- "$word")
    [ ${{#COMPREPLY[@]}} -eq 0 ] && mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return 0
}}
complete -o filenames -F _mpbroker mpbroker
"""


def _bash_case(place: Place) -> str:
    flags = " ".join(flag for row in place.options for flag in row.flags)
    return f'        "{" ".join(place.path)}") words="{" ".join(place.words)}|{flags}" ;;'


def _bash_values(place: Place) -> str:
    """After a flag that takes a value: its choices, or files."""
    lines = []
    for flags, choices in _values(place):
        patterns = "|".join(f'"{" ".join(place.path)}:{flag}"' for flag in flags)
        offered = f'-W "{" ".join(choices)}"' if choices else "-f"
        lines.append(f'        {patterns}) mapfile -t COMPREPLY < <(compgen {offered} -- "$word"); return ;;')
    return "\n".join(lines)


def _values(place: Place) -> list[tuple[list[str], list[str]]]:
    """The flags that take a value with their choices; those that take anything come last, together."""
    found = [(row.flags, row.choices) for row in place.options if row.takes and row.choices]
    anything = [flag for row in place.options if row.takes and not row.choices for flag in row.flags]
    return [*found, (anything, [])] if anything else found


def zsh(places: list[Place]) -> str:
    """For `#compdef`: a case for each place."""
    cases = "\n".join(_zsh_case(place) for place in places)
    known = " ".join(f"'{' '.join(place.path)}'" for place in places if place.path)
    return f"""\
#compdef mpbroker
# zsh completion of mpbroker; made by `mpbroker completion zsh`
_mpbroker() {{
    local place='' one
    local -a known=({known}) found flags
    for one in ${{words[2,CURRENT-1]}}; do
        [[ $one == help && -z $place ]] && continue
        (( ${{known[(Ie)${{place:+$place }}$one]}} )) && place="${{place:+$place }}$one"
    done
    case "$place:${{words[CURRENT-1]}}" in
{chr(10).join(_zsh_values(place) for place in places if any(row.takes for row in place.options))}
    esac
    case $place in
{cases}
    esac
    if [[ ${{words[CURRENT]}} == -* ]]; then
        _describe -o 'option' flags
    elif (( ${{#found}} )); then
        _describe 'command' found
    else
        _files
    fi
}}
[[ $funcstack[1] == _mpbroker ]] && _mpbroker "$@" || compdef _mpbroker mpbroker
"""


def _zsh_case(place: Place) -> str:
    found = " ".join(_zsh_entry(word, text) for word, text in place.words.items())
    flags = " ".join(_zsh_entry(flag, row.help) for row in place.options for flag in row.flags)
    return f"        '{' '.join(place.path)}') found=({found}) flags=({flags}) ;;"


def _zsh_entry(word: str, text: str) -> str:
    return _quoted(word.replace(":", "\\:") + (f":{text}" if text else ""))


def _zsh_values(place: Place) -> str:
    lines = []
    for flags, choices in _values(place):
        patterns = "|".join(f"'{' '.join(place.path)}:{flag}'" for flag in flags)
        offered = f"compadd -- {' '.join(map(_quoted, choices))}" if choices else "_files"
        lines.append(f"        {patterns}) {offered}; return ;;")
    return "\n".join(lines)


def fish(places: list[Place]) -> str:
    """One `complete` a word and a flag."""
    known = " ".join(_fish_quoted(" ".join(place.path)) for place in places if place.path)
    lines = [f"complete -c mpbroker -n {_at(place)} {rest}" for place in places for rest in _fish_rows(place)]
    return f"""\
# fish completion of mpbroker; made by `mpbroker completion fish`
function __mpbroker_place
    set -l known {known}
    set -l place
    for one in (commandline -opc)[2..-1]
        test "x$one" = xhelp -a -z "$place"; and continue
        contains -- (string trim "$place $one") $known; and set place (string trim "$place $one")
    end
    test "$place" = "$argv[1]"
end
{chr(10).join(lines)}
"""


def _at(place: Place) -> str:
    return _fish_quoted(f'__mpbroker_place "{" ".join(place.path)}"')


def _fish_rows(place: Place) -> list[str]:
    rows = [f"-f -a {_fish_quoted(word)} -d {_fish_quoted(text)}" for word, text in place.words.items()]
    for row in place.options:
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in row.flags)
        value = f" -x -a {_fish_quoted(' '.join(row.choices))}" if row.choices else " -r" if row.takes else ""
        rows.append(f"{flags}{value} -d {_fish_quoted(row.help)}")
    return rows


def _quoted(text: str) -> str:
    """In single quotes, for zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    """In single quotes, for fish, where the backslash counts."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
