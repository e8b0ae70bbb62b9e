"""Rewrites a function with modifiers so that each modifier can be left out at run time.

No expression can switch a modifier off. So the body moves into a private function, with one private caller
that has all modifiers and one for each missing modifier. The function itself only chooses.
"""

import re

from tools.mutation.edits import Edit, Node, apply_edits, span


def split_modifiers(
    source: bytes, node: Node, modifiers: list[Node], numbers: list[int], switch: str
) -> Edit:
    """Returns the edit of the header of FunctionDefinition `node`; its body stays where it is.

    `numbers[i]` is the value of `switch` (Solidity) that leaves `modifiers[i]` out."""
    name, body = node["name"], span(node["body"])[0]
    names = [p["name"] or f"argument{i}" for i, p in enumerate(node["parameters"]["parameters"])]
    returns = node["returnParameters"]
    result = f" returns {_text(source, returns)}" if returns["parameters"] else ""
    # A private function is never payable, but a payable one may call it.
    mutability = "view" if node["stateMutability"] in ("view", "pure") else ""
    low, high = span(node["parameters"])
    parameters = _name_parameters(source[low:high], low, node, names)

    def declare(suffix: str, kept: list[Node]) -> str:
        words = ["private", mutability, *(_text(source, modifier) for modifier in kept)]
        return f"function {name}__{suffix}{parameters} {' '.join(filter(None, words))}{result}"

    def go(suffix: str) -> str:
        call = f"{name}__{suffix}({', '.join(names)});"
        return f"return {call}" if result else f"{{ {call} return; }}"

    ways = [f"if ({switch} == {number}) {go(f'without{i}')}" for i, number in enumerate(numbers)]
    routes = [
        f"{declare(f'without{i}', [m for m in modifiers if m is not left])} {{ {go('body')} }}"
        for i, left in enumerate(modifiers)
    ]
    routes.append(f"{declare('guarded', modifiers)} {{ {go('body')} }}")
    header = _strip_header(source, node, modifiers, names, body)
    text = "\n".join(
        [f"{header} {{ {' '.join([*ways, go('guarded')])} }}", *routes, declare("body", []) + " "]
    )
    return Edit(span(node)[0], body, lambda _: text)


def _strip_header(source: bytes, node: Node, modifiers: list[Node], names: list[str], body: int) -> str:
    """Returns the header with every parameter named, without `modifiers`, and not pure."""
    start = span(node)[0]
    text = bytearray(source[start:body])
    for modifier in modifiers:
        low, high = span(modifier)
        text[low - start : high - start] = b" " * (high - low)
    return re.sub(r"\bpure\b", "view", _name_parameters(bytes(text), start, node, names))


def _name_parameters(text: bytes, start: int, node: Node, names: list[str]) -> str:
    """Names the parameters that have no name; `text` begins at offset `start`."""
    edits = []
    for parameter, name in zip(node["parameters"]["parameters"], names, strict=True):
        low, high = span(parameter)
        if not parameter["name"]:
            edits.append(Edit(low - start, high - start, lambda inner, name=name: f"{inner} {name}"))  # type: ignore[misc]
    return apply_edits(text, edits)


def _text(source: bytes, node: Node) -> str:
    start, end = span(node)
    return source[start:end].decode()
