"""What the pages' templates make of texts."""

from __future__ import annotations

from spark_reports.report.embedding import environment


def test_code_in_a_sentence_is_marked_and_nothing_in_it_becomes_html() -> None:
    page = environment().from_string('{% from "parts.html.j2" import coded %}{{ coded(said) }}')
    assert page.render(said="`hw-advance: isr` lacks <b>") == "<code>hw-advance: isr</code> lacks &lt;b&gt;"
    assert page.render(said="`<i>` & none") == "<code>&lt;i&gt;</code> &amp; none"
