"""Command groups: the commands of `traingrid` by the work that they belong to, as `traingrid --help` lists them."""

from difflib import get_close_matches
from importlib import import_module

import click

GROUPS = {
    "Daily work": {
        "submit": "submit.submit",
        "sweep": "sweep.sweep",
        "rounds": "rounds.rounds",
        "status": "status.status",
        "describe": "describe.describe",
        "logs": "logs.logs",
        "cancel": "cancel.cancel",
        "retry": "retry.retry",
        "ui": "ui.ui",
        "open": "describe.open_",
        "shell": "shell.shell",
    },
    "Results": {
        "compare": "compare.compare",
        "report": "report.report",
        "tensorboard": "tensorboard.tensorboard",
        "download": "data.download",
        "merge": "merge.merge",
        "register": "register.register",
    },
    "Operation": {
        "doctor": "doctor.doctor",
        "audit": "audit.audit",
        "pause": "pause.pause",
        "resume": "pause.resume",
        "eks": "eks.eks",
        "retained": "retained.retained",
    },
    "Data and cost": {
        "upload": "data.upload",
        "datasets": "datasets.datasets",
        "data": "prune.data",
        "catalog": "catalog.catalog",
        "manifest": "manifest.manifest",
        "plan": "plan.plan",
        "cost": "cost.cost",
        "prices": "prices.prices",
        "capacity": "capacity.capacity",
    },
    "On this machine": {
        "local": "local.local",
        "rehearse": "rehearse.rehearse",
    },
}
"""The commands of each group, each with its module in this package and its name there."""
_COMMANDS = {name: place for commands in GROUPS.values() for name, place in commands.items()}


class GroupedCommands(click.Group):
    """The commands in groups, of which only the one that runs is imported.

    https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
    """

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all commands, group by group."""
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by its name."""
        if name not in _COMMANDS:
            return super().get_command(context, name)
        module, _, command = _COMMANDS[name].partition(".")
        loaded: click.Command = getattr(import_module(f"{__package__}.{module}"), command)
        return loaded

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with, and the others.

        Raises:
            click.UsageError: There is no such command; click knows no nearest one of commands that are not imported.
        """
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            nearest = get_close_matches(arguments[0], _COMMANDS, n=1)
            step = f"Did you mean `traingrid {nearest[0]}`?" if nearest else "`traingrid --help` lists all commands."
            raise click.UsageError(f"No such command {arguments[0]!r}. {step}", context) from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary of each command, in a section for each group."""
        width = max(map(len, _COMMANDS))
        for group, names in GROUPS.items():
            with formatter.section(group):
                commands = ((name, self.get_command(context, name)) for name in names)
                room = formatter.width - width - 6  # as for click's own list of commands
                formatter.write_dl(
                    [(f"{name:<{width}}", command.get_short_help_str(room)) for name, command in commands if command]
                )
