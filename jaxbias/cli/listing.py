"""`jaxbias presets`: the tools whose defaults have a name."""

import typer

from jaxbias.cli.app import app
from jaxbias.cli.options import Json
from jaxbias.naming.presets import PRESETS
from jaxbias.reporting import terminal as report


@app.command(epilog="Example: jaxbias debias log.csv --preset mabwiser-thompson")
def presets(as_json: Json = False) -> None:
    """List the presets: the defaults of public bandit tools, with the release and the source they are from."""
    if as_json:
        found = [{"name": str(name), **preset._asdict()} for name, preset in PRESETS.items()]
        typer.echo(report.to_json({"presets": found}))
    else:
        report.print_presets(PRESETS)
