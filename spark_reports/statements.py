"""A file of SQL as Spark's own lexer cuts it: the text between semicolons, strings and comments left whole."""

from __future__ import annotations

from typing import Any, NamedTuple

_END_OF_FILE = -1
_DEFAULT_CHANNEL = 0
"""Of ANTLR, on which Spark's lexer is built. Comments and blanks go to another channel."""


class Statement(NamedTuple):
    """`line`: where it begins, from 1."""

    text: str
    line: int

    @property
    def excerpt(self) -> str:
        """So much of it as an error has room for."""
        words = " ".join(self.text.split())
        return words if len(words) <= 60 else words[:59] + "…"


def statements_of(jvm: Any, sql: str) -> list[Statement]:
    """Pieces that hold nothing but comments are left out, and so are comments before a statement.

    A script (BEGIN ... END) is one statement to the end of the file, for the semicolons in it are its own.
    """
    parser = jvm.org.apache.spark.sql.catalyst.parser
    antlr = jvm.org.antlr.v4.runtime
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(antlr.CharStreams.fromString(sql)))
    lexer.removeErrorListeners()
    semicolon, begins_script = parser.SqlBaseLexer.SEMICOLON, parser.SqlBaseLexer.BEGIN
    ends = [_END_OF_FILE, semicolon]
    found: list[Statement] = []
    begun: tuple[int, int] | None = None
    while True:
        token = lexer.nextToken()
        kind = token.getType()
        if kind in ends:
            if begun is not None:
                begin, line = begun
                found.append(Statement(sql[begin : token.getStartIndex()].rstrip(), line))
            begun = None
            if kind == _END_OF_FILE:
                return found
        elif begun is None and token.getChannel() == _DEFAULT_CHANNEL:
            begun = token.getStartIndex(), token.getLine()
            if kind == begins_script:
                ends = [_END_OF_FILE]
