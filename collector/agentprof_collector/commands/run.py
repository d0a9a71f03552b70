"""`agentprof run`, among the other commands; the console script takes a shorter way to it."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run any Python program, unchanged, and show what its tasks cost: agentprof run -- python agent.py"""
    # Servers and gRPC take a third of a second to import: not for the other commands.
    from agentprof._run.command import main
    from agentprof_collector.embedded import EmbeddedCollector

    context.exit(main(arguments, EmbeddedCollector))
