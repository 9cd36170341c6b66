"""The output of `highwater bench acks`."""

from __future__ import annotations

from typing import Any

import click


def print_acks(document: dict[str, Any]) -> None:
    click.echo("bench acks: a model in virtual time of published benchmarks; nothing of this machine is measured")
    for benchmark in document["benchmarks"]:
        _print_benchmark(benchmark)
    low, high = document["range"]["sync / async"]
    slow_us, fast_us = document["range"]["thread_us"]
    rates = ", ".join(f"{row['requests']}: {row['model_records_per_s']:,}" for row in document["in_flight"])
    click.echo("\n  LinkedIn's acks=all with batch.size 8196")
    click.echo(f"    sync / async, as far as the published latency leaves it open: {low:.3f} to {high:.3f}")
    click.echo(f"    model's records a second by requests in flight: {rates}")
    click.echo("      (Kafka's wiki, 2017, elsewhere: a second one gains much, a third and more gain nothing)")
    passage_us, thread_us = document["latency_us"], document["thread_us"]
    for line in (
        "What goes in, alike for all cases; nothing was fitted to a throughput:",
        f"  {passage_us} us per passage between machines (250: half a round trip within a data centre, by Jeff Dean)",
        f"  {thread_us} us of a thread per request and per fetch of a follower: producer to consumer then takes 2.5 ms",
        f"    (LinkedIn's median is 2 ms with fractions cut off, which leaves {slow_us} to {fast_us} us)",
        "  the cards of the machines; 122 bytes a record; full batches of batch.size; no linger; 5 requests in flight",
        "  the first line of each benchmark, as its producer's own speed",
        "What the model lacks: time per byte and per record, disks, TCP's windows, garbage collection, the Kafka of",
        "  those days. Large batches with acks=all come out twice as fast as they were: cards and threads alone do not",
        "  explain what these cost. LinkedIn's article and commands differ on batch.size; its figure lies between.",
    ):
        click.echo(f"  {line}")


def _print_benchmark(benchmark: dict[str, Any]) -> None:
    click.echo(f"\n  {benchmark['title']}\n  {benchmark['setup']}")
    click.echo(f"    {'records of 100 bytes a second':<36}{'batch.size':>10}{'published':>12}{'model':>12}")
    for case in benchmark["cases"]:
        published, model = case["published_records_per_s"], case["model_records_per_s"]
        note = "   goes in" if case["is_given"] else ""
        click.echo(f"    {case['title']:<36}{case['batch_bytes']:>10}{published:>12,}{model:>12,}{note}")
    click.echo(f"    {'ratio':<46}{'published':>12}{'model':>12}{'distance':>10}")
    for row in benchmark["ratios"]:
        click.echo(f"    {row['ratio']:<46}{row['published']:>12.3f}{row['model']:>12.3f}{row['distance']:>+10.3f}")
