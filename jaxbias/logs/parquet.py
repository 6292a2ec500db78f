"""The columns of Parquet files."""

from typing import Any

from jaxbias.logs.columns import LABELS, Columns, columns_by_role
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.files import RawFile
from jaxbias.logs.header import Finder
from jaxbias.logs.unused import LOOKED_AT, unused_columns


def read_parquet(file: RawFile, wanted: Finder) -> Columns:
    """Parquet; only the columns that are needed are read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ImportError("reading Parquet needs pyarrow; install it with pip install 'jaxbias[cli]'") from error
    try:
        file.content.seek(0)
        schema = pq.read_schema(file.content)
        places, notes = wanted.find(file.name, schema.names)
        names = {role: schema.names[place] for role, place in places.items()}
        for role, column in names.items():
            if pa.types.is_nested(schema.types[places[role]]):
                raise LogError(
                    f"columns.{role}",
                    subject=f"{file.name}: column {quote(column)}",
                    problem=f"has type {quote(str(schema.types[places[role]]))}",
                    remedy="it must have one value in each row",
                )
        dictionaries = [column for role, column in names.items() if role in LABELS]
        file.content.seek(0)
        opened = pq.ParquetFile(file.content, read_dictionary=dictionaries)
        unused = unused_columns(_head(opened, schema), schema.names, list(places.values()))
        frame = opened.read(columns=list(names.values())).to_pandas(ignore_metadata=True, split_blocks=True, self_destruct=True)
    except LogError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise LogError(
            subject=file.name, problem="is not a Parquet file, or is damaged", remedy="write or copy it again"
        ) from error
    columns = columns_by_role(file.name, frame[list(names.values())], names, notes)
    return columns._replace(unused=unused, arms_are_ordered=pa.types.is_dictionary(schema.types[places["arm"]]))


def _head(opened: Any, schema: Any) -> Any:
    """The first rows with all columns, as a data frame."""
    for batch in opened.iter_batches(batch_size=LOOKED_AT):
        return batch.to_pandas()
    return schema.empty_table().to_pandas(ignore_metadata=True)
