from .errors import LogError as LogError
from .export import to_arviz as to_arviz
from .log import Log as Log
from .notes import Note as Note
from .notes import NoteKind as NoteKind
from .reading import read_log as read_log
from .writing import SUFFIXES as SUFFIXES
from .writing import write_log as write_log
