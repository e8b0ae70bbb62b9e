"""Finds what can be mutated in a contract, by solc's syntax tree, and writes the mutated copy.

A mutant is one wrong place. It is active if `block.basefee` equals its number: no contract reads the base
fee, and forge sets it by an option, so one compiled copy holds all mutants. (The gas price would not do,
because code inside of `vm.deployCode` does not see it.)
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tools.mutation.edits import Edit, Node, span
from tools.mutation.modifiers import split_modifiers

NEIGHBOURS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
SWITCH = "block.basefee"

_SKIPPED = {
    "ArrayTypeName",
    "ElementaryTypeName",
    "EmitStatement",
    "EnumDefinition",
    "ErrorDefinition",
    "EventDefinition",
    "Mapping",
    "ModifierInvocation",
    "RevertStatement",
    "StructDefinition",
    "StructuredDocumentation",
    "UserDefinedTypeName",
}
_EXITS = {"RevertStatement", "Return", "Continue", "Break"}
_PURE = re.compile(rb"\bpure\b")
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class Mutant:
    """One mutated place: its number (>= 1), file, line, `Contract.function`, kind, both texts, and its count
    (from 1) among the places of its function with the same text."""

    number: int
    path: str
    line: int
    function: str
    kind: str
    original: str
    mutated: str
    nth: int = 1

    @property
    def key(self) -> str:
        """The mutant's name in tests/contracts/mutation, without its line, because lines move."""
        which = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.path}:{self.function}: {self.original} => {self.mutated}{which}"


@dataclass
class Finder:
    """Walks one file's tree; afterwards `edits` makes the mutated copy and `mutants` lists what is in it.

    `first` is the first number to give, `state` are the tree ids of all state variables. Without `mutate`
    only `pure` is loosened, as tests need. `unmutated` lists what was left alone, one line each: assembly,
    and writes without a value to keep."""

    path: str
    source: bytes
    first: int
    state: frozenset[int]
    mutate: bool = True
    edits: list[Edit] = field(default_factory=list)
    mutants: list[Mutant] = field(default_factory=list)
    unmutated: list[str] = field(default_factory=list)
    _function: list[str] = field(default_factory=list)
    _operators: set[int] = field(default_factory=set)

    def run(self, tree: Node) -> None:
        """Walks the file's SourceUnit. Only functions that define an operator stay pure."""
        for node in _descendants(tree):
            if node["nodeType"] == "UsingForDirective":
                for entry in node.get("functionList", []):
                    if "operator" in entry:
                        self._operators.add(entry["definition"]["referencedDeclaration"])
        self._visit(tree)

    # Walking ---------------------------------------------------------------------------------------------
    def _visit(self, node: Node) -> None:
        kind = node["nodeType"]
        if kind in _SKIPPED or (kind == "VariableDeclaration" and node["constant"]):
            return
        if kind == "ExpressionStatement":
            node["expression"]["_statement"] = True
        named = kind in ("ContractDefinition", "FunctionDefinition", "ModifierDefinition")
        if named:
            self._function.append(node.get("name") or node.get("kind", ""))
        if kind == "InlineAssembly":
            if self.mutate:
                self.unmutated.append(f"{self.path}:{self._line(node)}: assembly")
        elif kind == "FunctionDefinition" and node["id"] in self._operators:
            pass
        elif kind == "ForStatement":
            # A loop's step is no statement of its own, so `if` cannot be there.
            for name in ("initializationExpression", "condition", "body"):
                if node.get(name):
                    self._visit(node[name])
        else:
            for child in _children(node):
                self._visit(child)
        handler = getattr(self, "_on_" + kind, None)
        if handler and (self.mutate or kind in ("FunctionDefinition", "FunctionTypeName")):
            handler(node)
        if named:
            self._function.pop()

    # What is mutated -------------------------------------------------------------------------------------
    def _on_BinaryOperation(self, node: Node) -> None:
        operator = node["operator"]
        left, right = node["leftExpression"], node["rightExpression"]
        if operator not in NEIGHBOURS or _is_literal(left) and _is_literal(right):
            return
        if operator in ("&&", "||"):
            # Write || out in full if it is mutated, because && binds tighter.
            mutated = f"({self._text(left)}) {NEIGHBOURS[operator]} ({self._text(right)})"
            self._choose(node, "comparison", mutated)
        else:
            self._choose(node, "comparison", f"{self._text(left)} {NEIGHBOURS[operator]} {self._text(right)}")

    def _on_IfStatement(self, node: Node) -> None:
        condition = node["condition"]
        if _only_exits(node["trueBody"]) and not node.get("falseBody"):
            self._choose(condition, "guard", "false")
        elif condition.get("operator") not in ("==", "!="):
            self._choose(condition, "guard", f"!({self._text(condition)})")

    def _on_Conditional(self, node: Node) -> None:
        condition = node["condition"]
        if condition.get("operator") not in ("==", "!="):
            self._choose(condition, "guard", f"!({self._text(condition)})")

    def _on_FunctionCall(self, node: Node) -> None:
        if node["expression"].get("name") == "require":
            self._choose(node["arguments"][0], "guard", "true")

    def _on_ExpressionStatement(self, node: Node) -> None:
        expression = node["expression"]
        written = [(a, b) for a, b in _pair_components(expression) if self._is_state(a)]
        for left, right in written:
            if _is_value(left):
                self._choose(right, "write", self._text(left))
        whole = not written or not all(_is_value(left) for left, _ in written)
        if self._writes_state(expression):
            if whole:
                self._drop(node, "write")
        elif expression["nodeType"] == "FunctionCall" and expression["kind"] == "functionCall":
            callee = expression["expression"]["typeDescriptions"]["typeIdentifier"]
            if "_require_" in callee or "_revert_" in callee:
                return
            self._drop(node, "guard" if re.search(r"_(view|pure)\$", callee) else "call")

    def _on_Assignment(self, node: Node) -> None:
        # Statements are dropped whole; this is a write whose value is used.
        if self._writes_state(node) and not node.get("_statement"):
            if node["leftHandSide"]["nodeType"] == "TupleExpression" or not _is_value(node):
                self.unmutated.append(f"{self.path}:{self._line(node)}: {self._short(node)}")
            else:
                self._choose(
                    node,
                    "write",
                    self._text(node["rightHandSide" if node["operator"] == "=" else "leftHandSide"]),
                )

    def _on_UnaryOperation(self, node: Node) -> None:
        if node["operator"] in ("++", "--") and self._writes_state(node) and not node.get("_statement"):
            self._choose(node, "write", self._text(node["subExpression"]))

    def _on_FunctionDefinition(self, node: Node) -> None:
        modifiers = [m for m in node["modifiers"] if m.get("kind") == "modifierInvocation"]
        if node["stateMutability"] == "pure" and node["id"] not in self._operators:
            self._loosen(
                span(node["parameters"])[1], span(node["body"])[0] if node.get("body") else span(node)[1]
            )
        if modifiers and node.get("body") and self.mutate:
            if node["kind"] == "constructor":
                self.unmutated.append(f"{self.path}:{self._line(node)}: modifiers of a constructor")
            else:
                self._split(node, modifiers)

    def _on_FunctionTypeName(self, node: Node) -> None:
        if node["stateMutability"] == "pure":
            self._loosen(span(node["parameterTypes"])[1], span(node)[1])

    # How it is written -----------------------------------------------------------------------------------
    def _choose(self, node: Node, kind: str, mutated: str) -> None:
        """Replaces an expression by one that is mutated if its number is active."""
        number = self._add(node, kind, mutated)
        self._edit(node, lambda inner: f"({SWITCH} == {number} ? {mutated} : {inner})")

    def _drop(self, node: Node, kind: str) -> None:
        """Makes a statement disappear if its number is active. Braces keep a following `else` where it
        belongs."""
        number = self._add(node, kind, "(nothing)")
        start, end = span(node)
        end = self.source.index(b";", end) + 1
        self.edits.append(Edit(start, end, lambda inner: f"{{ if ({SWITCH} != {number}) {inner} }}"))

    def _split(self, node: Node, modifiers: list[Node]) -> None:
        """Adds one more way into the body of a function for each of its modifiers, without that modifier."""
        place = node["name"] + "() "
        numbers = [self._add(modifier, "guard", "(no modifier)", place) for modifier in modifiers]
        self.edits.append(split_modifiers(self.source, node, modifiers, numbers, SWITCH))

    def _loosen(self, start: int, end: int) -> None:
        """Turns `pure` into `view` between the offsets, because mutated code reads the base fee."""
        blank = _COMMENT.sub(lambda m: b" " * len(m.group()), self.source[start:end])
        for match in _PURE.finditer(blank):
            self.edits.append(Edit(start + match.start(), start + match.end(), lambda _: "view"))

    def _add(self, node: Node, kind: str, mutated: str, place: str = "") -> int:
        number = self.first + len(self.mutants)
        original, short = place + self._short(node), " ".join(mutated.split())
        function = ".".join(self._function)
        texts = (function, original, short)
        nth = 1 + sum((other.function, other.original, other.mutated) == texts for other in self.mutants)
        self.mutants.append(Mutant(number, self.path, self._line(node), function, kind, original, short, nth))
        return number

    def _edit(self, node: Node, build: Callable[[str], str]) -> None:
        self.edits.append(Edit(*span(node), build))

    def _writes_state(self, node: Node) -> bool:
        kind = node["nodeType"]
        if kind == "Assignment":
            return self._is_state(node["leftHandSide"])
        if kind == "UnaryOperation":
            return node["operator"] in ("++", "--", "delete") and self._is_state(node["subExpression"])
        if kind == "FunctionCall":
            callee = node["expression"]["typeDescriptions"].get("typeIdentifier") or ""
            return callee.startswith(("t_function_arraypush", "t_function_arraypop", "t_function_bytespush"))
        return False

    def _is_state(self, node: Node) -> bool:
        """Returns whether an assignment to this writes storage or an immutable; a local pointer does not."""
        kind = node["nodeType"]
        if kind == "TupleExpression":
            return any(part is not None and self._is_state(part) for part in node["components"])
        if kind == "Identifier":
            return node["referencedDeclaration"] in self.state
        if kind in ("IndexAccess", "MemberAccess"):
            base = node["baseExpression" if kind == "IndexAccess" else "expression"]
            identifier = base["typeDescriptions"]["typeIdentifier"]
            return identifier.startswith("t_mapping") or "_storage" in identifier
        return False

    def _text(self, node: Node) -> str:
        start, end = span(node)
        return self.source[start:end].decode()

    def _short(self, node: Node) -> str:
        return " ".join(self._text(node).split())

    def _line(self, node: Node) -> int:
        return self.source.count(b"\n", 0, span(node)[0]) + 1


def _children(node: Node) -> Iterator[Node]:
    for value in node.values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, dict) and "nodeType" in item:
                yield item


def _descendants(node: Node) -> Iterator[Node]:
    yield node
    for child in _children(node):
        yield from _descendants(child)


def _is_literal(node: Node) -> bool:
    return bool(node["typeDescriptions"]["typeIdentifier"].startswith("t_rational"))


def _is_value(node: Node) -> bool:
    return not re.search("_(storage|memory|calldata)", node["typeDescriptions"]["typeIdentifier"])


def _pair_components(node: Node) -> list[tuple[Node, Node]]:
    """Returns which variable gets which value in `(a, b) = (x, y)`; empty for anything else."""
    if node["nodeType"] != "Assignment":
        return []
    left, right = node["leftHandSide"], node["rightHandSide"]
    if left["nodeType"] != "TupleExpression" or right["nodeType"] != "TupleExpression":
        return []
    pairs = zip(left["components"], right["components"], strict=True)
    return [(a, b) for a, b in pairs if a is not None]


def _only_exits(body: Node) -> bool:
    """Returns whether a branch only leaves: by a revert, a return, or a call that reverts."""
    statements = body["statements"] if body["nodeType"] == "Block" else [body]
    if len(statements) != 1:
        return False
    only = statements[0]
    if only["nodeType"] == "ExpressionStatement":
        callee = only["expression"].get("expression", {})
        return "_revert_" in callee.get("typeDescriptions", {}).get("typeIdentifier", "")
    return only["nodeType"] in _EXITS
