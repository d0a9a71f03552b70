"""`agentprof doctor`, among the other commands; it needs none of the collector's packages."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def doctor(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Look at this environment, and try every SDK in it: agentprof doctor"""
    # It imports what it looks at: not for the other commands.
    from agentprof._doctor.command import main

    context.exit(main(arguments))
