"""``sdem help``: a command, or how sources are read."""

import click

from sdem_dist.cli.reading import reading_help


@click.command()
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC: a command, or reading, the options of sources."""
    if topic == "reading":
        click.echo(reading_help(ctx), nl=False)
        return
    parent = ctx.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    command = parent.command if topic is None else parent.command.get_command(parent, topic)
    if command is None:
        raise click.UsageError(f"{topic!r} is neither a command nor reading")
    click.echo(command.get_help(parent if topic is None else click.Context(command, info_name=topic, parent=parent)))
